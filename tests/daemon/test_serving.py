"""The accept loop, over real sockets on the loopback interface. Every test has a deadline of a few seconds."""

import socket
import stat
import struct
from typing import Any

import pytest
import trio
from tests.fakes.asgi import UPGRADE, hello, read_all, read_until, reply, served, swallow

from audiocpp.daemon.serving import AddressInUse, open_tcp_listener, open_unix_listener

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def fail(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("a bug in the app")


async def endless(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})


def waiting(entered: trio.Event, cancelled: trio.Event) -> Any:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    return handler


async def cancelled_by_its_end(scope: Any, receive: Any, send: Any) -> None:
    """Replies; whatever it still does then is cancelled as soon as the end of the request is reported."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await reply(send, b"done")


async def drain(stream: trio.SocketStream) -> None:
    while True:
        await stream.receive_some()


async def test_a_connection_serves_several_requests() -> None:
    with trio.fail_after(3):
        async with served({"/": hello}) as server, await server.connect() as stream:
            for _ in range(3):
                await stream.send_all(REQUEST)
                assert (await read_until(stream, b"hello")).startswith(b"HTTP/1.1 200")


async def test_a_connection_that_ends_with_its_reply_ends_at_once() -> None:
    with trio.fail_after(3):
        async with served({"/": cancelled_by_its_end}, linger_s=60) as server:
            assert (await server.get()).endswith(b"done")


async def test_pipelined_requests_are_answered_in_order() -> None:
    async def echo_path(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, scope["path"].encode())

    with trio.fail_after(3):
        async with served({"/a": echo_path, "/b": echo_path}) as server, await server.connect() as stream:
            await stream.send_all(REQUEST.replace(b"/ ", b"/a ") + REQUEST.replace(b"/ ", b"/b "))
            received = await read_until(stream, b"/b")
            assert received.index(b"/a") < received.index(b"/b")


async def test_an_app_that_fails_ends_its_request_only() -> None:
    with trio.fail_after(3):
        async with served({"/": hello, "/fail": fail}) as server:
            assert (await server.get("/fail")).startswith(b"HTTP/1.1 500")
            assert (await server.get()).endswith(b"hello")


async def test_a_byte_after_the_upgrade_ends_that_connection_only() -> None:
    with trio.fail_after(3):
        async with served({"/": hello, "/ws": swallow}) as server:
            async with await server.connect() as stream:
                await stream.send_all(UPGRADE + b"x")
                assert b"HTTP/1.1 400" in await read_all(stream)
            assert (await server.get()).endswith(b"hello")


async def test_bytes_that_are_not_http_get_a_json_error() -> None:
    with trio.fail_after(3):
        async with served({"/": hello}) as server, await server.connect() as stream:
            await stream.send_all(b"\x16\x03\x01 not http\r\n\r\n")
            received = await read_all(stream)
            assert received.startswith(b"HTTP/1.1 400")
            assert b'"type": "invalid_request_error"' in received


@pytest.mark.parametrize(
    "opening",
    [
        REQUEST[:-2] + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["h2c", "preface"],
)
async def test_http_2_is_never_spoken(opening: bytes) -> None:
    with trio.fail_after(3):
        async with served({"/": hello}) as server, await server.connect() as stream:
            await stream.send_all(opening)
            assert (await read_all(stream)).startswith((b"HTTP/1.1 200", b"HTTP/1.1 404"))


async def test_headers_that_do_not_end_close_the_connection() -> None:
    with trio.fail_after(3):
        async with served({"/": hello}) as server, await server.connect() as stream:
            await stream.send_all(REQUEST[:-2])
            assert await read_all(stream) == b""


async def test_a_connection_above_the_limit_is_answered_503() -> None:
    with trio.fail_after(3):
        async with (
            served({"/": hello}, max_connections=1, header_timeout_s=3) as server,
            await server.connect() as first,
        ):
            await first.send_all(REQUEST[:5])
            received = await server.get()
            assert received.startswith(b"HTTP/1.1 503")
            assert b"Retry-After: 1" in received


async def test_a_client_that_leaves_cancels_its_request() -> None:
    entered, cancelled = trio.Event(), trio.Event()
    with trio.fail_after(3):
        async with served({"/": waiting(entered, cancelled)}) as server:
            async with await server.connect() as stream:
                await stream.send_all(REQUEST)
                await entered.wait()
            await cancelled.wait()


async def test_a_reset_is_noticed_while_the_upload_is_not_read() -> None:
    entered, cancelled = trio.Event(), trio.Event()
    with trio.fail_after(5):
        async with served({"/": waiting(entered, cancelled)}) as server:
            async with await server.connect() as stream:
                await stream.send_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n")
                await entered.wait()
                with trio.move_on_after(0.2):
                    while True:
                        await stream.send_all(bytes(1 << 20))
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await cancelled.wait()


async def test_a_client_that_does_not_read_is_dropped_at_the_write_deadline() -> None:
    with trio.fail_after(5):
        async with served({"/": endless}) as server, await server.connect() as stream:
            await stream.send_all(REQUEST)
            await trio.sleep(0.6)  # real time: the deadline of 0.4 s and the kernel's buffers are what is tested
            with pytest.raises(trio.BrokenResourceError):
                await drain(stream)


async def test_a_refused_upload_is_answered_before_the_connection_closes() -> None:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, b"too large", status=413)

    with trio.fail_after(5):
        async with served({"/": refuse}) as server, await server.connect() as stream:
            await stream.send_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000000\r\n\r\n")
            await stream.send_all(bytes(1 << 20))
            assert b"too large" in await read_all(stream)


async def test_stopping_waits_for_a_running_request() -> None:
    entered, proceed = trio.Event(), trio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await proceed.wait()
        await reply(send, b"done")

    with trio.fail_after(3):
        async with served({"/": slow}, drain_s=2.5) as server, await server.connect() as stream:
            await stream.send_all(REQUEST)
            await entered.wait()
            server.stop.set()
            proceed.set()
            assert (await read_all(stream)).endswith(b"done")
            await server.stopped.wait()


async def test_stopping_closes_idle_connections_and_the_listener() -> None:
    with trio.fail_after(3):
        async with served({"/": hello}, keep_alive_s=60, drain_s=60) as server, await server.connect() as stream:
            await stream.send_all(REQUEST)
            await read_until(stream, b"hello")
            server.stop.set()
            assert await read_all(stream) == b""
            await server.stopped.wait()
            with pytest.raises(OSError, match="connect"):
                await server.connect()


async def test_stopping_ends_at_the_deadline_though_a_client_never_reads() -> None:
    with trio.fail_after(3):
        async with served({"/": endless}, write_timeout_s=60) as server, await server.connect() as stream:
            await stream.send_all(REQUEST)
            await read_until(stream, b"200")
            server.stop.set()
            with trio.fail_after(0.3 + 1):  # drain_s + 1
                await server.stopped.wait()


async def test_a_unix_peer_is_read_once_and_handed_to_the_app(tmp_path: Any) -> None:
    async def tell(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, f"{scope['state']['peer']} {scope['state']['loopback']}".encode())

    path = tmp_path / "a.sock"
    with trio.fail_after(3):
        listener = open_unix_listener(path, mode=0o660)
        async with served({"/": tell}, listener, read_peer=lambda sock: sock.family.name):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            async with await trio.open_unix_socket(str(path)) as stream:
                await stream.send_all(REQUEST)
                await read_until(stream, b"AF_UNIX True")


async def test_a_live_unix_socket_is_not_stolen(tmp_path: Any) -> None:
    with trio.fail_after(3):
        async with served({"/": hello}, open_unix_listener(tmp_path / "a.sock")):
            with pytest.raises(AddressInUse, match="another daemon listens on"):
                open_unix_listener(tmp_path / "a.sock")


async def test_a_left_over_unix_socket_is_replaced(tmp_path: Any) -> None:
    with trio.fail_after(3):
        await open_unix_listener(tmp_path / "a.sock").stream_listener.aclose()
        async with (
            served({"/": hello}, open_unix_listener(tmp_path / "a.sock")),
            await trio.open_unix_socket(str(tmp_path / "a.sock")) as stream,
        ):
            await stream.send_all(REQUEST)
            await read_until(stream, b"hello")


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Any) -> None:
    (tmp_path / "a.sock").write_text("precious")
    with pytest.raises(AddressInUse, match="not a socket"):
        open_unix_listener(tmp_path / "a.sock")
    assert (tmp_path / "a.sock").read_text() == "precious"


async def test_a_tcp_port_in_use_is_named() -> None:
    listener = open_tcp_listener("127.0.0.1", 0)
    try:
        with pytest.raises(AddressInUse, match=rf"127\.0\.0\.1:{listener.port} is in use"):
            open_tcp_listener("127.0.0.1", listener.port)
    finally:
        await listener.stream_listener.aclose()
