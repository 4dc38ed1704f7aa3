"""The accept loop with TLS: what holds without it holds with it."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import Served, hello, read_until, reply, served, swallow
from trio_websocket import ConnectionClosed, wrap_client_stream

from audiocpp.daemon.serving.tls import server_context

FILES = Path(__file__).parent.parent / "data" / "tls"
CERTIFICATE = str(FILES / "cert.pem")
CONTEXT = server_context(CERTIFICATE, str(FILES / "key.pem"))

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def connect(server: Served) -> trio.SSLStream[trio.SocketStream]:
    """A strict client: for it the end of the stream needs a notice."""
    context = ssl.create_default_context(cafile=CERTIFICATE)
    return trio.SSLStream(await server.connect(), context, server_hostname="localhost")


async def read_to_the_notice(stream: trio.SSLStream[trio.SocketStream]) -> bytes:
    received = b""
    async for piece in stream:
        received += piece
    return received


async def test_a_connection_serves_several_requests() -> None:
    with trio.fail_after(3):
        async with served({"/": hello}, tls=CONTEXT) as server, await connect(server) as stream:
            for _ in range(3):
                await stream.send_all(REQUEST)
                assert b"hello" in await read_until(stream, b"hello")  # type: ignore[arg-type]


async def test_the_app_knows_and_speaks_no_http_2() -> None:
    async def tell(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, scope["scheme"].encode())

    context = ssl.create_default_context(cafile=CERTIFICATE)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with trio.fail_after(3):
        async with served({"/": tell}, tls=CONTEXT) as server:
            stream = trio.SSLStream(await server.connect(), context, server_hostname="localhost")
            async with stream:
                await stream.send_all(LAST_REQUEST)
                assert (await read_to_the_notice(stream)).endswith(b"https")
                assert stream.selected_alpn_protocol() == "http/1.1"


async def test_a_connection_that_ends_with_its_reply_ends_at_once_and_with_a_notice() -> None:
    with trio.fail_after(1.5):
        async with served({"/": hello}, tls=CONTEXT, linger_s=60) as server, await connect(server) as stream:
            await stream.send_all(LAST_REQUEST)
            assert (await read_to_the_notice(stream)).endswith(b"hello")


@pytest.mark.parametrize("opening", [LAST_REQUEST, b"\0" * 100, b"\x16\x03\x01\xff\xff" + bytes(100)])
async def test_what_is_no_tls_is_closed_and_nothing_else_is(opening: bytes) -> None:
    with trio.fail_after(3):
        async with served({"/": hello}, tls=CONTEXT) as server, await connect(server) as stream:
            await stream.send_all(REQUEST)
            async with await server.connect() as plain:
                await plain.send_all(opening)
                assert b"hello" not in await received(plain)
            assert await read_until(stream, b"hello")  # type: ignore[arg-type]


async def received(stream: trio.SocketStream) -> bytes:
    data = b""
    try:
        async for piece in stream:
            data += piece
    except trio.BrokenResourceError:
        pass
    return data


async def test_a_handshake_that_does_not_come_is_not_waited_for() -> None:
    with trio.fail_after(3):
        async with served({"/": hello}, tls=CONTEXT) as server, await server.connect() as stream:
            assert await received(stream) == b""


async def test_a_connection_above_the_limit_is_answered_503() -> None:
    with trio.fail_after(3):
        async with (
            served({"/": hello}, tls=CONTEXT, max_connections=1, header_timeout_s=3) as server,
            await connect(server) as first,
            await connect(server) as second,
        ):
            await first.send_all(REQUEST[:5])
            await second.send_all(LAST_REQUEST)
            assert b"503" in await read_to_the_notice(second)


async def test_a_refused_upload_is_answered_while_the_client_still_sends() -> None:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, b"too large", status=413)

    with trio.fail_after(5):
        async with served({"/": refuse}, tls=CONTEXT) as server, await connect(server) as stream:
            await stream.send_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000000\r\n\r\n")
            await stream.send_all(bytes(1 << 20))
            assert b"too large" in await read_until(stream, b"too large")  # type: ignore[arg-type]


async def endless(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})


async def test_stopping_ends_at_the_deadline_though_a_client_never_reads() -> None:
    with trio.fail_after(3):
        async with served({"/": endless}, tls=CONTEXT, write_timeout_s=60) as server, await connect(server) as stream:
            await stream.send_all(REQUEST)
            await read_until(stream, b"200")  # type: ignore[arg-type]
            server.stop.set()
            with trio.fail_after(0.3 + 1):  # drain_s + 1
                await server.stopped.wait()


async def test_a_client_that_leaves_cancels_its_request() -> None:
    entered, cancelled = trio.Event(), trio.Event()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    with trio.fail_after(3):
        async with served({"/": wait}, tls=CONTEXT) as server:
            stream = await connect(server)
            await stream.send_all(REQUEST)
            await entered.wait()
            await stream.transport_stream.aclose()  # without a notice
            await cancelled.wait()


@asynccontextmanager
async def websocket(server: Served) -> AsyncIterator[Any]:
    async with trio.open_nursery() as nursery, await connect(server) as stream:
        yield await wrap_client_stream(nursery, stream, "localhost", "/ws")
        nursery.cancel_scope.cancel()


async def test_a_websocket_is_closed_by_either_side() -> None:
    async def close(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.send", "text": "x" * 100_000})
        await send({"type": "websocket.close", "code": 1000})

    with trio.fail_after(5):
        async with served({"/ws": close}, tls=CONTEXT) as server, websocket(server) as client:
            await client.send_message("hello")
            assert len(await client.get_message()) == 100_000
            with pytest.raises(ConnectionClosed):
                await client.get_message()
        async with served({"/ws": swallow}, tls=CONTEXT) as server, websocket(server) as client:
            await client.send_message(bytes(1 << 20))
            await client.aclose()
