"""Small ASGI apps and a raw client for the tests of the accept loop."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio
from msgspec.structs import replace
from trio_websocket import WebSocketConnection, wrap_client_stream

from audiocpp.daemon.http.live import RAW_BODIES
from audiocpp.daemon.serving import Listener, ServingLimits, open_tcp_listener, serve

QUICK = ServingLimits(
    max_connections=8,
    header_timeout_s=0.3,
    keep_alive_s=0.3,
    write_timeout_s=0.4,
    linger_s=0.2,
    drain_s=0.3,
    ping_interval_s=0.1,
)

UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)

Handler = Callable[[dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


async def reply(send: Callable[[Any], Awaitable[None]], body: bytes, *, status: int = 200) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def not_found(scope: Any, receive: Any, send: Any) -> None:
    await reply(send, b"not found", status=404)


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await reply(send, b"hello")


async def swallow(scope: Any, receive: Any, send: Any) -> None:
    """A WebSocket that is accepted and read for ever."""
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        await receive()


@dataclass
class Served:
    """A running server: `stop` is its stop event, `stopped` is set when `serve` has returned."""

    port: int
    stop: trio.Event
    stopped: trio.Event

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def get(self, path: str = "/") -> bytes:
        stream = await self.connect()
        async with stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return await read_all(stream)


@asynccontextmanager
async def served(
    handlers: dict[str, Handler],
    listener: Listener | None = None,
    *,
    read_peer: Any = None,
    tls: ssl.SSLContext | None = None,
    **limits: Any,
) -> AsyncIterator[Served]:
    """Serves `handlers` by path for the length of the block."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await handlers.get(scope["path"], not_found)(scope, receive, send)

    async with serving(app, listener, read_peer=read_peer, tls=tls, **limits) as running:
        yield running


@asynccontextmanager
async def serving(
    app: Any,
    listener: Listener | None = None,
    *,
    read_peer: Any = None,
    tls: ssl.SSLContext | None = None,
    **limits: Any,
) -> AsyncIterator[Served]:
    """Serves an ASGI app for the length of the block, with limits for the impatient."""
    at = listener or open_tcp_listener("127.0.0.1", 0)
    running = Served(0 if at.unix else at.port, stop=trio.Event(), stopped=trio.Event())

    async def run(*, task_status: Any) -> None:
        given = {"stop": running.stop, "read_peer": read_peer, "raw_bodies": RAW_BODIES, "tls": tls}
        start = partial(serve, limits=replace(QUICK, **limits), **given)
        await start(app, [at], task_status=task_status)
        running.stopped.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        yield running
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def websocket(server: Served, path: str, **settings: Any) -> AsyncIterator[WebSocketConnection]:
    """A WebSocket client over a stream of its own: `trio_websocket` leaves the socket open that the server closes."""
    async with trio.open_nursery() as nursery, await server.connect() as stream:
        yield await wrap_client_stream(nursery, stream, "localhost", path, **settings)
        nursery.cancel_scope.cancel()


async def read_all(stream: trio.SocketStream) -> bytes:
    """Everything until the end of the stream, or until the connection is reset."""
    received = b""
    try:
        async for piece in stream:
            received += piece
    except trio.BrokenResourceError:
        pass
    return received


async def read_until(stream: trio.SocketStream, mark: bytes) -> bytes:
    received = b""
    while mark not in received:
        piece = await stream.receive_some()
        assert piece, f"the stream ended before {mark!r}: {received!r}"
        received += piece
    return received
