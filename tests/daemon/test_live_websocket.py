"""The live WebSocket over real sockets, with scripted runs."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import Served, serving, websocket
from tests.fakes.services import Script, fake_app
from trio_websocket import ConnectionClosed, WebSocketConnection

from audiocpp.daemon.errors import WorkerDied
from audiocpp.daemon.live.ingest import QUEUE_BYTES
from audiocpp.engines.tasks import TextDelta

HELLO = Script(events=[TextDelta("Hello")])


def hello() -> Script:
    return Script(events=HELLO.events)


@dataclass
class Client:
    server: Served
    socket: WebSocketConnection

    async def event(self) -> dict[str, Any]:
        event = json.loads(await self.socket.get_message())
        assert isinstance(event, dict)
        return event

    async def control(self, kind: str) -> None:
        await self.socket.send_message(json.dumps({"type": kind}))

    async def close_code(self) -> int:
        with pytest.raises(ConnectionClosed) as closed:
            await self.socket.get_message()
        assert closed.value.reason is not None
        return int(closed.value.reason.code)


@asynccontextmanager
async def live(folder: Path, script: Script, query: str = "", **config: Any) -> AsyncIterator[Client]:
    """An open session whose `session.created` has been read."""
    with trio.fail_after(5):
        async with serving(fake_app(folder, script, **config), drain_s=2.0, ping_interval_s=1.0) as server:
            path = f"/v1/audio/transcriptions/live{query}"
            async with websocket(server, path) as socket:
                client = Client(server, socket)
                assert (await client.event())["type"] == "session.created"
                yield client


async def test_audio_of_any_size_reaches_the_model_and_text_comes_back(tmp_path: Path) -> None:
    script = hello()
    async with live(tmp_path, script, "?sample_rate=24000&channels=2&sample_format=f32le&partials=1") as client:
        for piece in (b"\1\2\3", b"", b"\4"):
            await client.socket.send_message(piece)
        await client.control("end")
        assert await client.event() == {"type": "transcript.text.delta", "delta": "Hello"}
        done = await client.event()
        assert (done["type"], done["text"]) == ("transcript.text.done", "Hello")
        assert set(done["timing"]) == {"ttft_ms", "audio_ms", "final_latency_ms"}
        assert await client.close_code() == 1000
    audio = script.run.request.audio
    assert audio is not None
    assert (audio.sample_rate, audio.channels, audio.encoding) == (24_000, 2, "f32le")
    assert script.run.request.options == {"partials": True}
    assert bytes(script.run.pushed) == b"\1\2\3\4"


async def test_finalize_answers_and_goes_on(tmp_path: Path) -> None:
    async with live(tmp_path, hello()) as client:
        await client.control("finalize")
        assert await client.event() == {"type": "transcript.finalized", "id": "1"}
        await client.control("end")
        assert (await client.event())["type"] == "transcript.text.delta"


async def test_text_that_is_no_json_is_an_error_event_and_the_session_goes_on(tmp_path: Path) -> None:
    async with live(tmp_path, hello()) as client:
        await client.socket.send_message("hello?")
        assert (await client.event())["error"]["code"] == "invalid_control"
        await client.control("end")
        assert (await client.event())["type"] == "transcript.text.delta"


async def test_a_close_without_end_aborts_the_run(tmp_path: Path) -> None:
    script = hello()
    async with live(tmp_path, script) as client:
        await client.socket.send_message(b"\1\2")
        await client.socket.aclose()
        with trio.fail_after(1):
            await script.run.left.wait()
    assert not script.run.completed


async def test_an_idle_client_is_told_and_closed(tmp_path: Path) -> None:
    script = hello()
    async with live(tmp_path, script, live_ingest={"idle_timeout_ms": 100}) as client:
        assert (await client.event())["error"]["message"].startswith("live request body stalled")
        assert await client.close_code() == 1008
        await script.run.left.wait()


async def test_a_frame_above_the_limit_closes_with_1009(tmp_path: Path) -> None:
    async with live(tmp_path, hello(), live_ingest={"max_chunk_bytes": 100}) as client:
        await client.socket.send_message(bytes(101))
        assert (await client.event())["type"] == "error"
        assert await client.close_code() == 1009


async def test_a_worker_that_dies_is_an_error_event_and_1011(tmp_path: Path) -> None:
    async with live(tmp_path, Script(fails=WorkerDied("the worker died"))) as client:
        await client.control("end")
        assert (await client.event())["error"] == {
            "message": "the worker died",
            "type": "server_error",
            "code": "worker_died",
        }
        assert await client.close_code() == 1011


async def test_an_unexpected_error_is_1011_and_shows_nothing_of_itself(tmp_path: Path) -> None:
    async with live(tmp_path, Script(fails=ZeroDivisionError("secret"))) as client:  # type: ignore[arg-type]
        await client.control("end")
        assert "secret" not in (await client.event())["error"]["message"]
        assert await client.close_code() == 1011


async def test_a_session_outlives_the_request_timeout(tmp_path: Path) -> None:
    async with live(tmp_path, hello(), request_timeout_ms=1) as client:
        await client.control("finalize")
        assert (await client.event())["type"] == "transcript.finalized"
        await client.control("end")
        assert (await client.event())["type"] == "transcript.text.delta"


async def test_stopping_the_daemon_gives_the_rest_and_closes_with_1012(tmp_path: Path) -> None:
    async with live(tmp_path, hello()) as client:
        await client.socket.send_message(b"\1\2")
        client.server.stop.set()
        assert [(await client.event())["type"] for _ in range(2)] == ["transcript.text.delta", "transcript.text.done"]
        assert await client.close_code() == 1012


async def test_control_is_heard_while_the_model_takes_no_audio(tmp_path: Path) -> None:
    async with live(tmp_path, Script(deaf=True)) as client:
        await client.socket.send_message(bytes(QUEUE_BYTES // 2))
        await client.socket.send_message("hello?")
        assert (await client.event())["error"]["code"] == "invalid_control"
