"""HTTP/1.1 and WebSocket of one connection: hypercorn's protocol classes with the parts replaced that do not hold.

- HTTP/2 is never started: neither the h2c upgrade nor the prior-knowledge preface.
- Some paths get their chunked bodies as they are on the wire, while they already reply.
- Requests that are not HTTP get our JSON error body instead of an empty one.
- WebSocket pings have a pong deadline, broken frames a close code, and data before the handshake's end is refused.
  Messages reach the app in the pieces they come in.
"""

import http.client
import json
import logging
from collections.abc import Set
from typing import cast

import h11
import trio
from hypercorn.config import Config
from hypercorn.protocol.events import Body, Data, EndBody, Event, Request, Response, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.typing import ASGIReceiveEvent, H11SendableEvent, WebsocketAcceptEvent
from wsproto.connection import ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from audiocpp.daemon.serving.limits import ServingLimits
from audiocpp.daemon.serving.raw_body import RawBodyConnection, RawBodyStream, has_raw_body

PROBE_INTERVAL_S = 0.5
"""How often a client is probed while the app takes no messages."""

logger = logging.getLogger(__name__)


class StackConfig(Config):
    """hypercorn's configuration of the protocol classes, from our limits."""

    accesslog = None
    include_server_header = False

    def __init__(self, limits: ServingLimits, *, raw_bodies: Set[str] = frozenset()) -> None:
        self.errorlog = logger
        self.raw_bodies = raw_bodies
        self.h11_max_incomplete_size = limits.max_header_bytes
        self.websocket_max_message_size = limits.max_message_bytes
        self.websocket_ping_interval = self.ping_interval_s = limits.ping_interval_s
        self.missed_pongs = limits.missed_pongs


_STATUS_TEXTS = {
    400: "the request is not valid HTTP/1.1",
    408: "the request took too long",
    431: "the request headers are too large",
    501: "Transfer-Encoding: only chunked is accepted, and nothing beside it",
}


class Protocol(H11Protocol):
    """The sans-I/O half of a connection, except that it awaits the app."""

    @property
    def idle(self) -> bool:
        """Between requests."""
        return self.stream is None

    @property
    def reads_to_the_end(self) -> bool:
        """Whether what the client has sent is read and answered although it sends nothing any more."""
        return isinstance(self.stream, RawBodyStream)

    async def end_input(self) -> None:
        """The client sends nothing any more; only where `reads_to_the_end`."""
        assert isinstance(self.stream, RawBodyStream)
        await self.stream.end()

    async def _check_protocol(self, event: h11.Request) -> None:
        """hypercorn would switch to HTTP/2 here."""

    async def _create_stream(self, request: h11.Request) -> None:
        """As hypercorn's, with our own classes."""
        stream_class = self._stream_class(request)
        self.stream = stream_class(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        if stream_class is WebSocketStream:
            self.connection = H11WSConnection(cast("h11.Connection", self.connection))
        elif stream_class is RawBodyStream:
            self.connection = RawBodyConnection(cast("h11.Connection", self.connection))
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1

    def _stream_class(self, request: h11.Request) -> type[HTTPStream | WSStream]:
        if _wants_websocket(request):
            return WebSocketStream
        raw = has_raw_body(request, cast("StackConfig", self.config).raw_bodies)
        return RawBodyStream if raw else HTTPStream

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        """As hypercorn's, with the reason phrase that it leaves out."""
        if isinstance(event, h11.Response) and not event.reason:
            phrase = http.client.responses.get(event.status_code, "").encode()
            event = h11.Response(status_code=event.status_code, headers=list(event.headers), reason=phrase)
        await super()._send_h11_event(event)

    async def _send_error_response(self, status_code: int) -> None:
        body = error_body(_STATUS_TEXTS.get(status_code, "the request cannot be read"))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        status = 400 if status_code == 501 else status_code  # the client's mistake here, like any other value
        await self._send_h11_event(h11.Response(status_code=status, headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())


def _wants_websocket(request: h11.Request) -> bool:
    headers = {bytes(name).lower(): bytes(value).lower() for name, value in request.headers}
    connection = [token.strip() for token in headers.get(b"connection", b"").split(b",")]
    upgrade = headers.get(b"upgrade", b"").strip()
    return request.method == b"GET" and b"upgrade" in connection and upgrade == b"websocket"


CLOSE_CODE = "close_code"
"""In the ASGI scope's `state` of a WebSocket, once it has been closed by more than the loss of the connection: the
code that the client gave, or that a broken frame has."""


MAX_MESSAGE_BYTES = "max_message_bytes"
"""In the ASGI scope's `state`: an app may put the length there that it takes messages up to."""


class WebSocketStream(WSStream):
    """One WebSocket. It keeps count of pongs, and does not count while it waits for the app to take a message.

    `websocket.receive` has a piece of a message, and `more` says whether others of it follow.
    """

    _message_length = 0
    _unanswered_pings = 0
    _waiting_for_app = False

    async def handle(self, event: Event) -> None:
        if isinstance(event, Body | Data) and not self.closed and not self.handshake.accepted:
            # Frames may only follow the 101. hypercorn would answer, but leave the app and the connection open.
            await self._send_error_response(400)
            await self.send(StreamClosed(stream_id=self.stream_id))
            return
        await super().handle(event)
        if isinstance(event, Request) and self.closed:
            await self.send(StreamClosed(stream_id=self.stream_id))  # hypercorn refuses a handshake and stays open

    async def _accept(self, message: WebsocketAcceptEvent) -> None:
        self.handshake.extensions = None  # PCM hardly shrinks, and a compressed frame could unpack to any size
        await super()._accept(message)

    async def _handle_events(self) -> None:
        for event in self.connection.events():
            if self.closed:
                return  # by the event before; what came with it is dropped
            match event:
                case TextMessage() | BytesMessage():
                    await self._receive(event)
                case Ping():
                    await self._send_wsproto_event(event.response())
                case Pong():
                    self._unanswered_pings = 0
                case CloseConnection():
                    await self._answer_close(event)
                    return

    async def _receive(self, event: TextMessage | BytesMessage) -> None:
        """Text is measured in characters, of which there are no more than bytes."""
        longest = self.scope["state"].get(MAX_MESSAGE_BYTES, self.config.websocket_max_message_size)
        self._message_length += len(event.data)
        if self._message_length > longest:
            await self._close(CloseReason.MESSAGE_TOO_BIG, f"a message may have {longest} bytes")
            return
        more = not event.message_finished
        if more and not event.data:
            return
        if not more:
            self._message_length = 0
        text, data = (event.data, None) if isinstance(event, TextMessage) else (None, bytes(event.data))
        self._waiting_for_app = True
        await self.app_put(  # type: ignore[misc]  # set before the handshake is accepted
            cast("ASGIReceiveEvent", {"type": "websocket.receive", "text": text, "bytes": data, "more": more})
        )
        self._waiting_for_app = False
        self._unanswered_pings = 0  # the pongs are in what was not read until now

    async def _answer_close(self, event: CloseConnection) -> None:
        if self.connection.state is ConnectionState.REMOTE_CLOSING:
            self.scope["state"][CLOSE_CODE] = event.code
            await self._send_wsproto_event(event.response())
            await self.send(StreamClosed(stream_id=self.stream_id))
        elif self.connection.state is ConnectionState.OPEN:
            # Not the client's: wsproto reports a broken frame as the close that we should send.
            await self._close(event.code, event.reason or "")
        else:
            self.scope["state"][CLOSE_CODE] = event.code
            await self.send(StreamClosed(stream_id=self.stream_id))

    async def _close(self, code: int, reason: str) -> None:
        self.scope["state"][CLOSE_CODE] = code
        await self._send_wsproto_event(CloseConnection(code=code, reason=reason))
        await self.send(StreamClosed(stream_id=self.stream_id))

    async def _send_pings(self) -> None:
        """Runs beside the app, so that a busy handler changes nothing.

        While the app is behind, nothing is read, and a client that left shows only by the reset that answers
        something sent to it: hence the pings at short intervals, which count for nothing.
        """
        config = cast("StackConfig", self.config)
        next_ping = trio.current_time()
        while not self.closed:
            if self._waiting_for_app:
                await self._send_wsproto_event(Ping())
            elif trio.current_time() >= next_ping:
                if self._unanswered_pings >= config.missed_pongs:
                    await self.send(StreamClosed(stream_id=self.stream_id))
                    return
                self._unanswered_pings += 1
                next_ping += config.ping_interval_s
                await self._send_wsproto_event(Ping())
            await trio.sleep(min(config.ping_interval_s, PROBE_INTERVAL_S))

    async def _send_error_response(self, status_code: int) -> None:
        body = error_body("the WebSocket handshake is not valid" if status_code == 400 else "the WebSocket failed")
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        await self.send(Response(stream_id=self.stream_id, status_code=status_code, headers=headers))
        await self.send(Body(stream_id=self.stream_id, data=body))
        await self.send(EndBody(stream_id=self.stream_id))


def error_body(message: str, *, kind: str = "invalid_request_error", code: str = "invalid_request") -> bytes:
    """The error body of replies that the app never sees."""
    error = {"message": message, "type": kind, "code": code, "param": None}
    return json.dumps({"error": error}).encode()
