"""Live sessions whose connection breaks, over real sockets, with scripted runs."""

import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import UPGRADE, Served, read_all, serving
from tests.fakes.services import FakeRun, Script, fake_app
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from audiocpp.daemon.backend import Backend
from audiocpp.engines.tasks import TextDelta

PATH = "/v1/audio/transcriptions/live"
RESET = struct.pack("ii", 1, 0)


class Client:
    """A connection that can break."""

    def __init__(self, stream: trio.SocketStream, connection: WebSocketConnection) -> None:
        self.stream = stream
        self.connection = connection

    async def event(self) -> dict[str, Any]:
        event = json.loads(await self.connection.get_message())
        assert isinstance(event, dict)
        return event

    async def send(self, message: bytes | str) -> None:
        await self.connection.send_message(message)

    async def close_code(self) -> int:
        with pytest.raises(ConnectionClosed) as closed:
            await self.connection.get_message()
        assert closed.value.reason is not None
        return int(closed.value.reason.code)


@asynccontextmanager
async def connected(server: Served, query: str = "") -> AsyncIterator[tuple[Client, dict[str, Any]]]:
    """A connection whose first event has been read. It is reset at the end of the block, unless it is closed."""
    async with trio.open_nursery() as nursery, await server.connect() as stream:
        connection = await wrap_client_stream(nursery, stream, "localhost", PATH + query)
        client = Client(stream, connection)
        try:
            yield client, await client.event()
        finally:
            nursery.cancel_scope.cancel()
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


@asynccontextmanager
async def daemon(folder: Path, script: Script, **config: Any) -> AsyncIterator[tuple[Served, Backend]]:
    app = fake_app(folder, script, **config)
    with trio.fail_after(5):
        async with serving(app, drain_s=2.0, ping_interval_s=1.0) as server:
            yield server, app.extensions["audiocpp"]


async def refused(server: Served, query: str) -> int:
    """The status of a session that is not to be had."""
    async with await server.connect() as stream:
        await stream.send_all(UPGRADE.replace(b"/ws", f"{PATH}{query}".encode()))
        reply = await read_all(stream)
    return int(reply.split()[1])


async def pushed(run: FakeRun, data: bytes) -> None:
    """Returns when the run has got `data`, all that was sent so far."""
    while run.pushed != data:
        assert data.startswith(run.pushed)
        await trio.sleep(0.005)


async def reserved(backend: Backend, number: int) -> None:
    while backend.services.slots.of(backend.services.registry.find("moonshine-live")).reserved != number:
        await trio.sleep(0.005)


async def test_a_session_goes_on_over_a_new_connection(tmp_path: Path) -> None:
    script = Script(events=[TextDelta("Hello")])
    async with daemon(tmp_path, script) as (server, backend):
        async with connected(server) as (client, created):
            assert (created["resumed"], created["next_sample"], created["resume_ms"]) == (False, 0, 30_000)
            await client.send(b"abcde")
            await pushed(script.run, b"abcde")
        await reserved(backend, 1)
        async with connected(server, f"?session_id={created['id']}&offset=4") as (client, resumed):
            assert (resumed["type"], resumed["id"]) == ("session.created", created["id"])
            assert (resumed["resumed"], resumed["next_sample"], resumed["text"]) == (True, 2, "")
            assert backend.services.slots.of(backend.services.registry.find("moonshine-live")).reserved == 0
            await client.send(b"efgh")
            await client.send('{"type": "end"}')
            assert (await client.event())["delta"] == "Hello"
            assert (await client.event())["text"] == "Hello"
            assert await client.close_code() == 1000
        assert bytes(script.run.pushed) == b"abcdefgh"
        await script.run.left.wait()


async def test_what_was_said_meanwhile_is_told_later(tmp_path: Path) -> None:
    script = Script(events=[TextDelta("Hello"), TextDelta(" there")])
    async with daemon(tmp_path, script) as (server, _):
        async with connected(server) as (client, created):
            await client.send(b"ab")
            await client.send('{"type": "end"}')
            assert (await client.event())["delta"] == "Hello"
        await script.run.left.wait()
        async with connected(server, f"?session_id={created['id']}") as (client, resumed):
            events = [await client.event()]
            while events[-1]["type"] != "transcript.text.done":
                events.append(await client.event())
            deltas = [event["delta"] for event in events[:-1]]
            assert resumed["text"] + "".join(deltas) == events[-1]["text"] == "Hello there"
            assert await client.close_code() == 1000
        assert await refused(server, f"?session_id={created['id']}") == 404


async def test_a_close_frame_ends_the_session_for_good(tmp_path: Path) -> None:
    script = Script()
    async with daemon(tmp_path, script) as (server, backend):
        async with connected(server) as (client, created):
            await client.send(b"ab")
            await pushed(script.run, b"ab")
            await client.connection.aclose()
            with trio.fail_after(1):
                await script.run.left.wait()
        assert await refused(server, f"?session_id={created['id']}") == 404
        assert backend.services.slots.of(backend.services.registry.find("moonshine-live")).reserved == 0


async def test_a_session_is_held_for_as_long_as_configured(tmp_path: Path) -> None:
    script = Script()
    async with daemon(tmp_path, script, resume_ms=200) as (server, backend):
        async with connected(server) as (client, created):
            await client.send(b"ab")
            await pushed(script.run, b"ab")
        await reserved(backend, 1)
        await script.run.left.wait()
        assert await refused(server, f"?session_id={created['id']}") == 404


async def test_without_resuming_a_broken_connection_ends_the_session(tmp_path: Path) -> None:
    script = Script()
    async with daemon(tmp_path, script, resume_ms=0) as (server, _):
        async with connected(server) as (client, _):
            await client.send(b"ab")
            await pushed(script.run, b"ab")
        with trio.fail_after(1):
            await script.run.left.wait()


async def test_a_client_that_sent_no_audio_leaves_nothing_behind(tmp_path: Path) -> None:
    script = Script()
    async with daemon(tmp_path, script) as (server, _):
        async with connected(server):
            pass
        with trio.fail_after(1):
            await script.run.left.wait()


@pytest.mark.parametrize("events", [3000, 10_000], ids=["held back", "more than is kept"])
async def test_a_client_that_reads_nothing_is_not_waited_for(tmp_path: Path, events: int) -> None:
    script = Script(events=events * [TextDelta("x" * 10_000)], hangs=True)
    limits = {"send_timeout_ms": 200}
    async with daemon(tmp_path, script, live_ingest=limits) as (server, backend), await server.connect() as stream:
        await stream.send_all(UPGRADE.replace(b"/ws", PATH.encode()))
        await stream.send_all(b"\x82\x82\0\0\0\0ab" + b'\x81\x8f\0\0\0\0{"type": "end"}')
        await script.opened.wait()
        await script.run.left.wait()
        assert backend.services.slots.of(backend.services.registry.find("moonshine-live")).reserved == 0


async def test_a_new_connection_takes_the_place_of_one_that_is_not_known_to_be_dead(tmp_path: Path) -> None:
    script = Script(events=[TextDelta("Hello")])
    async with daemon(tmp_path, script) as (server, _):
        async with connected(server) as (first, created):
            await first.send(b"ab")
            await pushed(script.run, b"ab")
            async with connected(server, f"?session_id={created['id']}&offset=1") as (second, resumed):
                assert resumed["resumed"]
                assert await first.close_code() == 1008
                await second.send(b"cd")
                await second.send('{"type": "end"}')
                assert (await second.event())["delta"] == "Hello"
        assert bytes(script.run.pushed) == b"abcd"


async def test_a_held_slot_is_nobody_elses(tmp_path: Path) -> None:
    script = Script()
    models = [{"id": "moonshine-live", "family": "moonshine_asr", "mode": "streaming", "lazy": True, "slots": 1}]
    async with daemon(tmp_path, script, models=models) as (server, backend):
        async with connected(server) as (client, created):
            await client.send(b"ab")
            await pushed(script.run, b"ab")
        await reserved(backend, 1)
        assert await refused(server, "?busy_timeout_ms=50") == 503
        async with connected(server, f"?session_id={created['id']}") as (_, resumed):
            assert resumed["resumed"]


async def test_unloading_does_not_wait_for_a_lost_client(tmp_path: Path) -> None:
    script = Script()
    async with daemon(tmp_path, script) as (server, backend):
        async with connected(server) as (client, _):
            await client.send(b"ab")
            await pushed(script.run, b"ab")
        await reserved(backend, 1)
        row = json.loads((await server.get("/v1/models/moonshine-live")).partition(b"\r\n\r\n")[2])
        assert (row["active_slots"], row["reserved_slots"]) == (0, 1)
        async with await server.connect() as stream:
            head = "POST /v1/tasks/unload_models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            body = json.dumps({"model_ids": ["moonshine-live"]})
            await stream.send_all(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            assert b'"unloaded": ["moonshine-live"]' in await read_all(stream)
        await script.run.left.wait()


async def test_stopping_does_not_wait_for_a_lost_client(tmp_path: Path) -> None:
    script = Script()
    async with daemon(tmp_path, script) as (server, backend):
        async with connected(server) as (client, _):
            await client.send(b"ab")
            await pushed(script.run, b"ab")
        await reserved(backend, 1)
        server.stop.set()
        with trio.fail_after(1):
            await server.stopped.wait()


@pytest.mark.parametrize("offset", ["-1", "x", "1.5", str(2**60)])
async def test_an_offset_is_a_whole_number(tmp_path: Path, offset: str) -> None:
    async with daemon(tmp_path, Script()) as (server, _):
        assert await refused(server, f"?session_id=x&offset={offset}") == 400
