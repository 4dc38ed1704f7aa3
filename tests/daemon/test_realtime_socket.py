"""The Realtime route over real sockets, with scripted runs."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from jsonschema import Draft202012Validator
from tests.fakes.asgi import UPGRADE, Served, read_all, serving, websocket
from tests.fakes.services import Script, fake_app
from trio_websocket import ConnectionClosed, WebSocketConnection

from audiocpp.daemon.errors import ServerBusy, WorkerDied
from audiocpp.daemon.http.openapi.document import build_document
from audiocpp.engines.tasks import SpeechAnswered, SpeechStarted, SpeechStopped, TextDelta

PATH = "/v1/realtime?intent=transcription"
TEXT = "conversation.item.input_audio_transcription"
SPOKEN = [SpeechStarted(0.0), TextDelta("Hello"), SpeechStopped(0.5), TextDelta(" there"), SpeechAnswered()]
TWO_MODELS = [
    {"id": "one", "family": "moonshine_asr", "mode": "streaming", "lazy": True},
    {"id": "two", "family": "moonshine_asr", "mode": "streaming", "lazy": True, "slots": 1},
]


class Client:
    """An open connection. Everything it receives is checked against the description of the API."""

    def __init__(self, server: Served, socket: WebSocketConnection, document: dict[str, Any]) -> None:
        self.server = server
        messages = document["paths"]["/v1/realtime"]["get"]["x-websocket"]
        self._socket = socket
        self._sends = Draft202012Validator({"oneOf": messages["send"], "components": document["components"]})
        self._receives = Draft202012Validator({"oneOf": messages["receive"], "components": document["components"]})

    async def send(self, kind: str, **more: Any) -> None:
        message = {"type": kind, **more}
        self._sends.validate(message)
        await self._socket.send_message(json.dumps(message))

    async def append(self, data: bytes) -> None:
        await self.send("input_audio_buffer.append", audio=base64.b64encode(data).decode())

    async def event(self) -> dict[str, Any]:
        event = json.loads(await self._socket.get_message())
        self._receives.validate(event)
        assert isinstance(event, dict)
        return event

    async def until(self, kind: str) -> list[dict[str, Any]]:
        events = [await self.event()]
        while events[-1]["type"] != kind:
            events.append(await self.event())
        return events

    async def close_code(self) -> int:
        with pytest.raises(ConnectionClosed) as closed:
            await self._socket.get_message()
        assert closed.value.reason is not None
        return int(closed.value.reason.code)


@asynccontextmanager
async def realtime(folder: Path, script: Script, query: str = "", **config: Any) -> AsyncIterator[Client]:
    app = fake_app(folder, script, **config)
    document = build_document(app, version="1")
    with trio.fail_after(5):
        async with serving(app, drain_s=2.0, ping_interval_s=1.0) as server:
            headers = [(b"OpenAI-Beta", b"realtime=v1")] if query.startswith("&beta") else []
            async with websocket(server, PATH + query, extra_headers=headers) as socket:
                yield Client(server, socket, document)


async def test_a_session_is_opened_configured_and_answered(tmp_path: Path) -> None:
    script = Script(events=SPOKEN)
    async with realtime(tmp_path, script) as client:
        assert (await client.event())["type"] == "session.created"
        await client.send("session.update", session={"audio": {"input": {"format": {"type": "audio/pcmu"}}}})
        assert (await client.event())["session"]["audio"]["input"]["format"] == {"type": "audio/pcmu"}
        await client.append(b"abc")
        while script.run.pushed != b"abc":
            await trio.sleep(0.005)
        client.server.stop.set()
        events = await client.until(f"{TEXT}.completed")
        assert events[-1]["transcript"] == "Hello there"
        assert await client.close_code() == 1012
    assert [request.audio.encoding for request in script.run.requests if request.audio] == ["s16le", "mulaw"]
    assert bytes(script.run.pushed) == b"abc"


async def test_a_client_of_the_beta(tmp_path: Path) -> None:
    async with realtime(tmp_path, Script(events=SPOKEN), "&beta=1") as client:
        assert (await client.event())["type"] == "transcription_session.created"
        await client.send("transcription_session.update", session={"input_audio_format": "pcm16"})
        assert (await client.event())["type"] == "transcription_session.updated"


async def test_a_commit_is_answered_in_order(tmp_path: Path) -> None:
    async with realtime(tmp_path, Script()) as client:
        await client.event()
        await client.append(bytes(2))
        await client.send("input_audio_buffer.commit")
        kinds = [event["type"] for event in await client.until(f"{TEXT}.completed")]
        assert kinds[0] == "input_audio_buffer.committed"
        await client.send("input_audio_buffer.clear")
        assert (await client.event())["type"] == "input_audio_buffer.cleared"


async def test_the_model_may_be_named_once_connected(tmp_path: Path) -> None:
    script = Script(events=SPOKEN)
    async with realtime(tmp_path, script, models=TWO_MODELS) as client:
        created = await client.event()
        assert created["session"]["audio"]["input"]["transcription"]["model"] is None
        assert script.runs == []
        await client.append(b"ab")
        assert "model" in (await client.event())["error"]["message"]
        for name in ("two", "one", "two"):
            update = {"audio": {"input": {"transcription": {"model": name}}}}
            await client.send("session.update", session=update)
            updated = (await client.until("session.updated"))[-1]
            assert updated["session"]["audio"]["input"]["transcription"]["model"] == name
            await client.append(b"cd")
        while [bytes(run.pushed) for run in script.runs] != 3 * [b"cd"]:
            await trio.sleep(0.005)


async def test_a_model_that_cannot_be_had_ends_the_session_with_the_reason(tmp_path: Path) -> None:
    script = Script(refuses=ServerBusy("busy"))
    async with realtime(tmp_path, script, models=TWO_MODELS) as client:
        await client.event()
        await client.send("session.update", session={"audio": {"input": {"transcription": {"model": "two"}}}})
        await client.event()
        assert (await client.event())["error"]["code"] == "server_busy"
        assert await client.close_code() == 1013


async def test_a_worker_that_dies_is_told_and_1011(tmp_path: Path) -> None:
    async with realtime(tmp_path, Script(fails=WorkerDied("the worker died"))) as client:
        await client.event()
        await client.append(b"ab")
        client.server.stop.set()
        assert (await client.event())["error"]["code"] == "worker_died"
        assert await client.close_code() == 1011


async def test_a_client_that_leaves_frees_its_slot(tmp_path: Path) -> None:
    script = Script()
    async with realtime(tmp_path, script) as client:
        await client.event()
        await client.send("input_audio_buffer.clear")
        await client.event()
        await client._socket.aclose()
        with trio.fail_after(1):
            await script.run.left.wait()


async def test_a_binary_message_is_answered_and_the_session_goes_on(tmp_path: Path) -> None:
    async with realtime(tmp_path, Script()) as client:
        await client.event()
        await client._socket.send_message(bytes(200_000))
        assert (await client.event())["error"]["code"] == "invalid_event"
        await client.send("input_audio_buffer.clear")
        assert (await client.event())["type"] == "input_audio_buffer.cleared"


@pytest.mark.parametrize(
    ("query", "script", "status", "code"),
    [
        ("?intent=conversation", Script(), 400, "invalid_request"),
        ("?model=nobody", Script(), 404, "model_not_found"),
        ("?model=piper", Script(), 400, "invalid_request"),
        ("?busy_timeout_ms=x", Script(), 400, "invalid_request"),
        ("", Script(refuses=ServerBusy("busy")), 503, "server_busy"),
    ],
)
async def test_a_refusal_is_a_reply_to_the_upgrade(
    tmp_path: Path, query: str, script: Script, status: int, code: str
) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE.replace(b"/ws", f"/v1/realtime{query}".encode()))
            head, _, body = (await read_all(stream)).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert json.loads(body)["error"]["code"] == code
