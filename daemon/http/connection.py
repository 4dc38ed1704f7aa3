"""The ASGI side of a request: bounded body, request id, access line, and a nursery that lives as long as the reply.

quart-trio's own classes buffer a body without bound and turn an empty WebSocket message into None.
"""

import logging
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent
from quart import Quart, request
from quart.wrappers import Websocket
from quart_trio.asgi import TrioASGIHTTPConnection, TrioASGIWebsocketConnection
from quart_trio.wrappers.request import TrioBody, TrioRequest
from werkzeug.routing import Rule

from audiocpp.daemon.backend import EXTENSION, Backend
from audiocpp.daemon.http.paths import rule_path
from audiocpp.daemon.logs import request_id
from audiocpp.daemon.metrics import UNMATCHED
from audiocpp.daemon.serving.pieces import Piece
from audiocpp.daemon.timings import Timings, current_timings

access_log = logging.getLogger("audiocpp.daemon.http.access")

BODY_BUFFER_BYTES = 1 << 20
REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
SETTLE_S = 0.02
"""How long a refusal waits for the rest of its request's body: usually a packet that is on the way. The connection can
only serve another request when there is none left."""

SETTLED_BYTES = 64 << 10
"""Longer bodies are not waited for."""

CLIENT_LEFT = 499
"""The status that the access line and the metrics show when the client left before the end of the reply, whatever
status that began with; nginx has it for clients that left before its beginning."""


class ReplyBroken(Exception):
    """The reply cannot be completed: the connection ends without its last chunk, so that the client can tell."""


class RequestBody(TrioBody):
    """A body that makes the connection wait while the route has not taken what is here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed through
        super().__init__(*args, **kwargs)
        self._taken = trio.Event()

    @property
    def complete(self) -> bool:
        """Whether its end has been received."""
        return self._complete.is_set()

    async def put(self, data: bytes) -> None:
        self.append(data)
        while len(self._data) >= BODY_BUFFER_BYTES:
            await self._taken.wait()

    async def settle(self) -> bool:
        """Whether all of it has come, after a moment for the rest of a small one, which is dropped."""
        with trio.move_on_after(SETTLE_S):
            async for _ in self:
                continue
            return True
        return False

    async def __anext__(self) -> bytes:
        data = await super().__anext__()
        self._taken.set()
        self._taken = trio.Event()
        return data


class ServedRequest(TrioRequest):
    """A request. Its `tasks` are cancelled when the reply is complete or the client leaves; then its `resources` are
    closed."""

    body_class = RequestBody
    tasks: trio.Nursery
    resources: ExitStack


def served_request() -> ServedRequest:
    """The current request."""
    return cast("ServedRequest", request._get_current_object())  # type: ignore[attr-defined]


class HttpConnection(TrioASGIHTTPConnection):
    """Serves one HTTP request."""

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        with _traced(self.scope["headers"]) as exchange:
            served = cast("ServedRequest", self._create_request_from_scope(send))
            try:
                with ExitStack() as served.resources:
                    async with trio.open_nursery() as served.tasks:
                        served.tasks.start_soon(self.handle_messages, served.tasks, served, receive)
                        sender = exchange.watched(partial(_send_settled, served, send))
                        served.tasks.start_soon(self.handle_request, served.tasks, served, sender)
            except* ReplyBroken:
                exchange.complete = True  # by our own fault
            finally:
                exchange.end(self.app, self.scope["method"], self.scope["path"], served.url_rule)

    async def handle_messages(  # type: ignore[override]
        self, nursery: trio.Nursery, request: ServedRequest, receive: ASGIReceiveCallable
    ) -> None:
        body = cast("RequestBody", request.body)
        while (message := await receive())["type"] == "http.request":
            await body.put(message.get("body", b""))
            if not message.get("more_body", False):
                body.set_complete()
        nursery.cancel_scope.cancel()


async def _send_settled(served: ServedRequest, send: ASGISendCallable, event: ASGISendEvent) -> None:
    """Sends; a reply that begins before its request has ended says that the connection ends with it.

    Otherwise a client would put its next request on a connection that is about to be closed.
    """
    if event["type"] == "http.response.start" and _has_body(served) and not await _is_settled(served, event["status"]):
        event["headers"] = [*event["headers"], (b"connection", b"close")]
    await send(event)


def _has_body(served: ServedRequest) -> bool:
    return "Transfer-Encoding" in served.headers or served.headers.get("Content-Length", "0") != "0"


async def _is_settled(served: ServedRequest, status: int) -> bool:
    body = cast("RequestBody", served.body)
    if body.complete:
        return True
    short = served.content_length is not None and served.content_length <= SETTLED_BYTES
    return status >= 400 and short and await body.settle()


class WebSocketConnection(TrioASGIWebsocketConnection):
    """Serves one WebSocket. The route receives each message in the `Piece`s that it came in."""

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        with _traced(self.scope["headers"]) as exchange:
            try:
                await super().__call__(receive, exchange.watched(send))
            finally:
                exchange.end(self.app, "WEBSOCKET", self.scope["path"], self._socket.url_rule)

    def _create_websocket_from_scope(self, send: ASGISendCallable) -> Websocket:
        self._socket = super()._create_websocket_from_scope(send)
        return self._socket

    async def handle_messages(  # type: ignore[override]
        self, nursery: trio.Nursery, receive: ASGIReceiveCallable
    ) -> None:
        while (event := await receive())["type"] != "websocket.disconnect":
            if event["type"] == "websocket.receive":
                data = event.get("bytes")
                piece = Piece(cast("str", event["text"]) if data is None else data, not event.get("more", False))
                await self.send_channel.send(cast("bytes", piece))
        nursery.cancel_scope.cancel()


@dataclass
class Exchange:
    """What the access line and the metrics tell of one request."""

    id: str
    timings: Timings = field(default_factory=Timings)
    started: float = field(default_factory=trio.current_time)
    status: int = CLIENT_LEFT
    complete: bool = False
    sent_bytes: int = 0

    def watched(self, send: ASGISendCallable) -> ASGISendCallable:
        """`send` with the request id and the times so far on the reply, counting."""

        async def watched_send(event: ASGISendEvent) -> None:
            message: dict[str, Any] = dict(event)
            match message["type"]:
                case "http.response.start" | "websocket.http.response.start" | "websocket.accept":
                    self.status = message.get("status", 101)
                    self.complete = message["type"] == "websocket.accept"
                    message["headers"] = [*message.get("headers", ()), *self._headers(message["type"])]
                case "http.response.body" | "websocket.http.response.body":
                    self.sent_bytes += len(message["body"])
                    self.complete = not message.get("more_body", False)
                case "websocket.send":
                    self.sent_bytes += len(message["bytes"] or message["text"] or b"")
            await send(cast("ASGISendEvent", message))

        return watched_send

    def _headers(self, kind: str) -> list[tuple[bytes, bytes]]:
        server_timing = self.timings.header(self._elapsed_s * 1e3)
        headers = [(b"x-request-id", self.id.encode()), (b"server-timing", server_timing.encode())]
        if kind == "websocket.http.response.start":
            headers.append((b"connection", b"close"))  # the connection waits for frames and can serve nothing else
        return headers

    @property
    def _elapsed_s(self) -> float:
        return trio.current_time() - self.started

    def end(self, app: Quart, method: str, path: str, rule: Rule | None) -> None:
        """The reply is complete, or its client has left. `rule` is that of the route, if there is one."""
        seconds = self._elapsed_s
        status = self.status if self.complete else CLIENT_LEFT
        fields = {"status": status, "duration_ms": round(seconds * 1e3, 1), "sent_bytes": self.sent_bytes}
        told = {"method": method, "path": path, **fields, **self.timings.log_fields()}
        access_log.info("%s %s", method, path, extra=told)
        backend: Backend = app.extensions[EXTENSION]
        backend.services.metrics.served(
            route=UNMATCHED if rule is None else rule_path(rule),
            method=method,
            status=status,
            model=self.timings.model,
            seconds=seconds,
        )


@contextmanager
def _traced(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[Exchange]:
    """Gives the request its id: the client's own `X-Request-Id` if it is a plain token, else a new one."""
    given = next((value.decode("latin-1") for name, value in headers if name.lower() == b"x-request-id"), "")
    exchange = Exchange(given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex)
    id_token, timings_token = request_id.set(exchange.id), current_timings.set(exchange.timings)
    try:
        yield exchange
    finally:
        request_id.reset(id_token)
        current_timings.reset(timings_token)
