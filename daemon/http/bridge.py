"""Requests in WebSocket messages, on every path that is no WebSocket route itself: the frontend `websocket`.

A message is one request to the path of the handshake. It is given to the app like any other request, so every route,
check and limit is the same. Requests on one socket run one after the other.
"""

import contextvars
from collections.abc import Iterable
from typing import Any, cast

import trio
from hypercorn.typing import ASGIReceiveEvent, ASGISendEvent, HTTPScope
from quart import Quart, current_app, websocket
from quart.wrappers import Websocket

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.body import MAX_JSON_BYTES, too_large
from audiocpp.daemon.http.bridge_frames import (
    OF_THE_CONNECTION,
    BridgedRequest,
    ReplyFrames,
    error_message,
    parse_request,
    request_id_of,
)
from audiocpp.daemon.http.errors import error_object
from audiocpp.daemon.http.guards import shown_key
from audiocpp.daemon.http.reply import json_text
from audiocpp.daemon.live.socket import accept
from audiocpp.daemon.serving.pieces import Piece
from audiocpp.daemon.serving.protocol import MAX_MESSAGE_BYTES

WHOLE_BYTES = 4 << 20
"""A longer reply comes in pieces, like a stream."""

ENVELOPE_BYTES = 64 << 10
"""What a message may have beside its body."""

RESTARTING = 1012

_NOT_HANDED_ON = OF_THE_CONNECTION - {"host", "origin"} | {"content-type", "expect", "x-request-id"}


async def bridge() -> None:
    """Serves one WebSocket. Its handshake has been checked like a request of any other route."""
    socket = cast("Websocket", websocket._get_current_object())  # type: ignore[attr-defined]
    app = cast("Quart", current_app._get_current_object())  # type: ignore[attr-defined]
    served = _Bridge(app, socket, limit_bytes=min(backend().services.config.max_request_body_bytes, MAX_JSON_BYTES))
    socket.scope["state"][MAX_MESSAGE_BYTES] = float("inf")  # what is too long is read to its end and answered
    await accept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.close_at_stop, nursery.cancel_scope)
        await served.run()


class _Bridge:
    def __init__(self, app: Quart, socket: Websocket, *, limit_bytes: int) -> None:
        self._app = app
        self._socket = socket
        self._limit_bytes = limit_bytes
        self._key = shown_key(websocket)
        self._answering = trio.Lock()

    async def run(self) -> None:
        """Answers messages until the client leaves, which cancels this."""
        while True:
            message = await self._next_message()
            async with self._answering:
                await self._answer(message)

    async def close_at_stop(self, scope: trio.CancelScope) -> None:
        """Closes when the daemon stops, after the reply that is under way."""
        await self._socket.scope["state"]["stopping"].wait()
        async with self._answering:
            await self._socket.close(RESTARTING, "the daemon is stopping")
            scope.cancel()

    async def _next_message(self) -> str | bytes | None:
        """None for one that is too long; binary ones are not gathered."""
        text: list[str] = []
        length = 0
        while True:
            piece = cast("Piece", await self._socket.receive())
            length += len(piece.data)
            if isinstance(piece.data, str) and length <= self._limit_bytes + ENVELOPE_BYTES:
                text.append(piece.data)
            if piece.last:
                if isinstance(piece.data, bytes):
                    return b""
                return "".join(text) if length <= self._limit_bytes + ENVELOPE_BYTES else None

    async def _answer(self, message: str | bytes | None) -> None:
        if message is None:
            error = too_large(self._limit_bytes)
            frames = ReplyFrames(None, error.status, [(b"content-type", b"application/json")])
            await self._socket.send(frames.whole(json_text({"error": error_object(error)})))
            return
        request_id = None
        try:
            if isinstance(message, bytes):
                raise InvalidRequest("a binary message is no request; requests are texts")
            request_id = request_id_of(message)
            request = parse_request(message)
        except InvalidRequest as error:
            await self._socket.send(error_message(error.message, kind=error.type, request_id=request_id))
            return
        await self._perform(request, request_id)

    async def _perform(self, request: BridgedRequest, request_id: object) -> None:
        reply = _Reply(self._socket, request_id)
        call = _Call(request.body)
        async with trio.open_nursery() as nursery:
            # The app is to see a request, and not the WebSocket that this task serves.
            contextvars.Context().run(nursery.start_soon, self._app, self._scope(request), call.receive, reply.send)
        if not reply.complete:
            await self._socket.send(error_message("the reply broke off", request_id=request_id))

    def _scope(self, request: BridgedRequest) -> HTTPScope:
        upgrade = self._socket.scope
        query = upgrade["query_string"] if request.query is None else request.query.encode()
        return cast(
            "HTTPScope",
            {
                **{name: value for name, value in upgrade.items() if name != "subprotocols"},
                "type": "http",
                "scheme": "https" if upgrade["scheme"] == "wss" else "http",
                "method": request.method,
                "query_string": query,
                "headers": self._headers(request, upgrade["headers"]),
                "state": dict(upgrade["state"]),
            },
        )

    def _headers(self, request: BridgedRequest, upgrade: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Those of the handshake, with the key that it showed in whatever way, and over them those of the message."""
        headers = {
            name: value
            for name, value in ((bytes(name).decode("latin-1").lower(), value) for name, value in upgrade)
            if name not in _NOT_HANDED_ON and not name.startswith("sec-websocket-")
        }
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}".encode()
        headers |= {name: text.encode() for name, text in request.headers.items()}
        headers["content-length"] = str(len(request.body)).encode()
        return [(name.encode("latin-1"), value) for name, value in headers.items()]


class _Call:
    """The request's body, as the app receives it."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def receive(self) -> ASGIReceiveEvent:
        if self._body is None:
            await trio.sleep_forever()  # whoever leaves cancels
        body, self._body = self._body, None
        return cast("ASGIReceiveEvent", {"type": "http.request", "body": body, "more_body": False})


class _Reply:
    """What the app sends, as messages."""

    def __init__(self, socket: Websocket, request_id: object) -> None:
        self.complete = False
        self._socket = socket
        self._request_id = request_id
        self._frames: ReplyFrames | None = None
        self._whole: bytearray | None = None

    async def send(self, event: ASGISendEvent) -> None:
        message = cast("dict[str, Any]", event)
        if message["type"] == "http.response.start":
            await self._start(message["status"], message["headers"])
        elif message["type"] == "http.response.body":
            await self._body(message.get("body", b""), last=not message.get("more_body", False))

    async def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._frames = ReplyFrames(self._request_id, status, list(headers))
        length = self._frames.content_length
        if length is not None and length <= WHOLE_BYTES:
            self._whole = bytearray()
        else:
            await self._socket.send(self._frames.start())

    async def _body(self, data: bytes, *, last: bool) -> None:
        assert self._frames is not None
        if self._whole is not None:
            self._whole += data
            if last:
                await self._socket.send(self._frames.whole(bytes(self._whole)))
        else:
            piece = self._frames.piece(data, last=last)
            if piece is not None:
                await self._socket.send(piece)
            if last:
                await self._socket.send(self._frames.done())
        self.complete = last
