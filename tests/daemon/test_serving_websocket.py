"""WebSockets under the accept loop: pings, back-pressure, broken frames. A raw socket is the client where it must
misbehave, `trio_websocket` where it must not."""

from typing import Any

import pytest
import trio
from tests.fakes.asgi import UPGRADE, hello, read_all, read_until, served, swallow, websocket


async def test_pings_go_out_while_the_handler_is_busy() -> None:
    async def busy(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await trio.sleep_forever()

    with trio.fail_after(3):
        async with served({"/ws": busy}) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE)
            await read_until(stream, b"\x89\x00")


async def test_a_client_that_misses_two_pongs_is_dropped() -> None:
    with trio.fail_after(3):
        async with served({"/ws": swallow}) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE)
            received = await read_all(stream)
            assert received.count(b"\x89\x00") == 2


async def test_a_client_that_answers_pings_is_kept() -> None:
    with trio.fail_after(3):
        async with (
            served({"/ws": swallow}) as server,
            websocket(server, "/ws") as client,
        ):
            await trio.sleep(0.5)  # five ping intervals of real time
            await client.ping()


async def test_pongs_are_not_missed_while_the_app_takes_no_messages() -> None:
    proceed = trio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await proceed.wait()
        for _ in range(40):
            await receive()
        await send({"type": "websocket.close", "code": 1000})

    with trio.fail_after(4):
        async with served({"/ws": slow}) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE)
            await read_until(stream, b"\r\n\r\n")
            await stream.send_all(40 * b"\x82\x81\0\0\0\0x")
            await trio.sleep(0.6)  # six ping intervals of real time; the pongs would be behind the unread messages
            proceed.set()
            assert (await read_all(stream)).endswith(b"\x88\x02" + (1000).to_bytes(2, "big"))


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x82\x01x", 1002),  # not masked
        (b"\x83\x80\0\0\0\0", 1002),  # reserved opcode
        (b"\x81\x81\0\0\0\0\xff", 1007),  # text that is not UTF-8
        (b"\x82\xfe\x10\x01\0\0\0\0" + bytes(0x1001), 1009),  # one byte too long
    ],
    ids=["unmasked", "opcode", "utf8", "too large"],
)
async def test_a_broken_frame_is_answered_with_a_close_code(frame: bytes, code: int) -> None:
    with trio.fail_after(3):
        async with served({"/": hello, "/ws": swallow}, max_message_bytes=0x1000) as server:
            async with await server.connect() as stream:
                await stream.send_all(UPGRADE)
                await read_until(stream, b"\r\n\r\n")
                await stream.send_all(frame)
                received = await read_all(stream)
            assert b"\x88" in received
            assert code.to_bytes(2, "big") in received
            assert (await server.get()).endswith(b"hello")


@pytest.mark.parametrize(
    ("header", "changed"),
    [(b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 8"), (b"Sec-WebSocket-Key", b"X")],
    ids=["version", "no key"],
)
async def test_a_broken_handshake_is_refused_and_the_connection_ends(header: bytes, changed: bytes) -> None:
    with trio.fail_after(3):
        async with served({"/ws": swallow}) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE.replace(header, changed))
            received = await read_all(stream)
            assert received.startswith(b"HTTP/1.1 400")
            assert b"handshake is not valid" in received


async def test_what_follows_a_frame_that_is_too_large_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(3):
        async with (
            served({"/ws": swallow}, max_message_bytes=0x1000) as server,
            await server.connect() as stream,
        ):
            await stream.send_all(UPGRADE)
            await read_until(stream, b"\r\n\r\n")
            await stream.send_all(b"\x82\xfe\x10\x01\0\0\0\0" + bytes(0x1001) + b"\x81\x82\0\0\0\0{}")
            assert b"\x88" in await read_all(stream)
    assert [record for record in caplog.records if record.exc_info] == []


async def test_the_last_message_reaches_a_client_that_is_still_sending() -> None:
    async def close_at_once(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.send", "text": "final words", "bytes": None})
        await send({"type": "websocket.close", "code": 1000})

    with trio.fail_after(3):
        async with served({"/ws": close_at_once}) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE)
            await read_until(stream, b"\r\n\r\n")
            await stream.send_all(b"\x82\xfe\xff\xff\0\0\0\0" + bytes(0xFFFF) + b"\x82\xfe\xff\xff\0\0\0\0")
            assert b"final words" in await read_all(stream)


@pytest.mark.parametrize("message_bytes", [1, 60_000], ids=["a few bytes", "more than the socket holds"])
async def test_a_client_that_leaves_cancels_a_handler_that_reads_nothing(message_bytes: int) -> None:
    frame = b"\x82\xfe" + message_bytes.to_bytes(2, "big") + bytes(4 + message_bytes)
    cancelled = trio.Event()

    async def deaf(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    with trio.fail_after(3):
        async with served({"/ws": deaf}, ping_interval_s=60) as server:
            async with await server.connect() as stream:
                await stream.send_all(UPGRADE)
                await read_until(stream, b"\r\n\r\n")
                with trio.move_on_after(0.2):
                    for _ in range(1000):
                        await stream.send_all(frame)
            await cancelled.wait()


async def test_messages_reach_the_app_in_the_pieces_they_come_in() -> None:
    received: list[tuple[str | bytes, bool]] = []

    async def collect(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            received.append((event["text"] if event["bytes"] is None else event["bytes"], event["more"]))

    with trio.fail_after(3):
        async with served({"/ws": collect}) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE)
            await read_until(stream, b"\r\n\r\n")
            await stream.send_all(b"\x82\x86\0\0\0\0ab")
            while not received:
                await trio.sleep(0.005)
            assert received == [(b"ab", True)]
            await stream.send_all(b"cdef" + b"\x01\x81\0\0\0\0x" + b"\x00\x80\0\0\0\0" + b"\x80\x81\0\0\0\0y")
            while len(received) < 4:
                await trio.sleep(0.005)
    assert received[1:] == [(b"cdef", False), ("x", True), ("y", False)]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x88\x82\0\0\0\0\x03\xe9", 1001),  # the client closes
        (b"\x82\xfe\x10\x01\0\0\0\0" + bytes(0x1001), 1009),  # one byte too long
        (b"", None),  # it is just gone
    ],
)
async def test_the_app_can_tell_a_close_from_a_lost_connection(sent: bytes, code: int | None) -> None:
    states: list[dict[str, Any]] = []
    ended = trio.Event()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        states.append(scope["state"])
        try:
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                continue
        finally:
            ended.set()

    with trio.fail_after(3):
        async with served({"/ws": wait}, max_message_bytes=0x1000) as server:
            async with await server.connect() as stream:
                await stream.send_all(UPGRADE)
                await read_until(stream, b"\r\n\r\n")
                await stream.send_all(sent)
                if sent:
                    await read_all(stream)
            await ended.wait()
    assert states[0].get("close_code") == code
