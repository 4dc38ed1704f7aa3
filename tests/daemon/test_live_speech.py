"""Live speech: text that comes in pieces, and what is said of it; then over real sockets, with scripted runs."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.asgi import UPGRADE, Served, read_all, serving, websocket
from tests.fakes.services import Script, fake_app
from trio_websocket import ConnectionClosed, WebSocketConnection

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.errors import InvalidRequest, ServerBusy, WorkerDied
from audiocpp.daemon.live.messages import Close, Send
from audiocpp.daemon.live.speech_session import Finish, Flushed, Say, SpeechEffect, SpeechSession
from audiocpp.daemon.live.speech_text import LONGEST_WAIT_CHARS, SpeechText
from audiocpp.engines.tasks import AudioChunk

PATH = "/v1/audio/speech/live"
CHUNK = AudioChunk(pcm=bytes(400), sample_rate=22_050)


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (["Hello wor", "ld. How are", " you? "], ["", "Hello world.", ""]),
        (["Dr", ".", " Smith pays $3", ".50 today. ", "Yes"], ["", "", "", "", "Dr. Smith pays $3.50 today."]),
        (["One. Two. Three"], ["One. Two."]),
        (["こんにちは。", "元気"], ["", "こんにちは。"]),
        (["", "  ", "\n"], ["", "", ""]),
    ],
)
def test_a_sentence_is_complete_when_the_next_begins(pieces: list[str], said: list[str]) -> None:
    text = SpeechText()
    assert [text.push(piece) for piece in pieces] == said


def test_what_is_no_sentence_is_said_when_asked_for() -> None:
    text = SpeechText()
    text.push("Hello wor")
    assert text.flush() == "Hello wor"
    assert text.flush() == ""


def test_text_without_an_end_is_cut_at_a_word() -> None:
    text = SpeechText()
    said = [text.push("word ") for _ in range(LONGEST_WAIT_CHARS)]
    assert max(map(len, said)) <= LONGEST_WAIT_CHARS
    assert " ".join([*filter(None, said), text.flush()]) == " ".join(["word"] * LONGEST_WAIT_CHARS)


@given(
    words=st.lists(
        st.sampled_from(["Hello.", "you", "Dr.", "3.14", "No!", "why?", "e.g.", "—", "x" * 300]), max_size=60
    ),
    sizes=st.lists(st.integers(1, 40), min_size=1),
)
def test_any_split_of_a_text_says_all_of_it_once(words: list[str], sizes: list[int]) -> None:
    whole, text, said, at, turn = " ".join(words), SpeechText(), [], 0, 0
    while at < len(whole):
        size = sizes[turn % len(sizes)]
        said.append(text.push(whole[at : at + size]))
        at, turn = at + size, turn + 1
    assert " ".join(filter(None, [*said, text.flush()])) == whole


def session(**limits: int) -> SpeechSession:
    return SpeechSession(text=SpeechText(), limits=LiveIngest(**limits), opened_s=100.0)


def say(live: SpeechSession, kind: str, **more: Any) -> list[SpeechEffect]:
    return live.control(json.dumps({"type": kind, **more}), 100.0)


def kinds(effects: list[SpeechEffect]) -> list[str]:
    return [
        str(effect.event["type"])
        if isinstance(effect, Send)
        else f"close {effect.code}"
        if isinstance(effect, Close)
        else type(effect).__name__.lower()
        for effect in effects
    ]


def test_text_is_said_in_order_and_the_end_comes_last() -> None:
    live = session()
    assert say(live, "text", text="One. Two") == [Say("One.")]
    assert say(live, "flush") == [Say("Two"), Flushed("1")]
    assert say(live, "flush") == [Flushed("2")]
    assert say(live, "text", text=" Three") == []
    assert say(live, "end") == [Say("Three"), Finish(1000)]
    assert kinds(say(live, "text", text="Four")) == ["error"]
    assert live.stop() == []


def test_stopping_says_what_has_come() -> None:
    live = session()
    say(live, "text", text="One. Two")
    assert live.stop() == [Say("Two"), Finish(1012)]


@pytest.mark.parametrize(
    "text",
    ["", "hello", "[]", "{}", '{"type": "text"}', '{"type": "text", "text": 5}', '{"type": "dance"}', "[" * 9999],
)
def test_a_message_that_is_not_understood_is_answered_and_survived(text: str) -> None:
    live = session()
    (answer,) = live.control(text, 100.0)
    assert isinstance(answer, Send)
    assert answer.event["error"]["code"] == "invalid_control"
    assert kinds(live.binary(100.0)) == ["error"]
    assert say(live, "text", text="One. Two") == [Say("One.")]


def test_a_client_that_listens_is_not_idle() -> None:
    live = session(idle_timeout_ms=1000)
    assert live.deadline_s == 101.0
    assert live.expire(101.0, speaking=True) == []
    assert live.expire(101.9, speaking=False) == []
    assert kinds(live.expire(102.0, speaking=False)) == ["error", "close 1008"]


@pytest.mark.parametrize(("limit", "code"), [("max_chunk_bytes", 1009), ("max_body_bytes", 1008)])
def test_a_limit_ends_the_session(limit: str, code: int) -> None:
    assert kinds(say(session(**{limit: 5}), "text", text="Hellö!")) == ["error", f"close {code}"]


def test_keepalive_is_activity() -> None:
    live = session(idle_timeout_ms=1000)
    assert live.control('{"type": "keepalive"}', 100.9) == []
    assert live.deadline_s == 101.9


class Client:
    def __init__(self, server: Served, socket: WebSocketConnection) -> None:
        self.server = server
        self.socket = socket

    async def send(self, kind: str, **more: Any) -> None:
        await self.socket.send_message(json.dumps({"type": kind, **more}))

    async def receive(self) -> bytes | dict[str, Any]:
        message = await self.socket.get_message()
        return message if isinstance(message, bytes) else dict(json.loads(message))

    async def close_code(self) -> int:
        with pytest.raises(ConnectionClosed) as closed:
            await self.socket.get_message()
        assert closed.value.reason is not None
        return int(closed.value.reason.code)


@asynccontextmanager
async def live(folder: Path, script: Script, query: str = "", **config: Any) -> AsyncIterator[Client]:
    with trio.fail_after(5):
        app = fake_app(folder, script, **config)
        async with (
            serving(app, drain_s=2.0, ping_interval_s=1.0) as server,
            websocket(server, PATH + query) as socket,
        ):
            client = Client(server, socket)
            made = {"sample_rate": 22_050, "channels": 1}
            assert await client.receive() == {"type": "speech.created", "model": "piper", "voice": "joe", **made}
            yield client


async def test_sentences_are_spoken_as_they_are_complete(tmp_path: Path) -> None:
    script = Script(events=[CHUNK])
    async with live(tmp_path, script, "?speed=1.5") as client:
        await client.send("text", text="One. Tw")
        assert await client.receive() == CHUNK.pcm
        await client.send("text", text="o")
        await client.send("flush")
        assert await client.receive() == CHUNK.pcm
        assert await client.receive() == {"type": "speech.flushed", "id": "1"}
        await client.send("end")
        done = await client.receive()
        assert isinstance(done, dict)
        assert done["type"] == "speech.audio.done"
        assert done["timing"]["ttft_ms"] >= 0
        assert await client.close_code() == 1000
    assert [request.text for request in script.run.requests] == ["", "One.", "Two"]
    assert script.run.request.options == {"speed": 1.5}
    assert script.run.completed


async def test_text_that_waits_is_spoken_together(tmp_path: Path) -> None:
    script = Script(events=[CHUNK])
    async with live(tmp_path, script) as client:
        await client.send("text", text="One. Two. Three. Four.")
        await client.send("end")
        assert await client.receive() == CHUNK.pcm
    assert script.run.requests[1].text.startswith("One. Two. Three.")


async def test_text_that_cannot_be_spoken_is_passed_over(tmp_path: Path) -> None:
    script = Script(fails=InvalidRequest("there is nothing in the text that can be spoken", param="input"))
    async with live(tmp_path, script) as client:
        await client.send("text", text="...")
        await client.send("end")
        done = await client.receive()
        assert isinstance(done, dict)
        assert done["timing"] == {"ttft_ms": None, "audio_ms": 0.0}


async def test_a_model_that_fails_ends_the_session_with_the_reason(tmp_path: Path) -> None:
    async with live(tmp_path, Script(fails=WorkerDied("the worker died"))) as client:
        await client.send("text", text="One.")
        await client.send("flush")
        error = await client.receive()
        assert isinstance(error, dict)
        assert error["error"]["code"] == "worker_died"
        assert await client.close_code() == 1011


async def test_stopping_the_daemon_speaks_what_has_come(tmp_path: Path) -> None:
    async with live(tmp_path, Script(events=[CHUNK])) as client:
        await client.send("text", text="One. Two")
        assert await client.receive() == CHUNK.pcm
        client.server.stop.set()
        assert await client.receive() == CHUNK.pcm
        done = await client.receive()
        assert isinstance(done, dict)
        assert done["type"] == "speech.audio.done"
        assert await client.close_code() == 1012


async def test_a_client_that_leaves_frees_its_slot(tmp_path: Path) -> None:
    script = Script(events=[CHUNK], hangs=True)
    async with live(tmp_path, script) as client:
        await client.send("text", text="One. Two")
        await client.receive()
        await client.socket.aclose()
        with trio.fail_after(1):
            await script.run.left.wait()


async def test_an_idle_client_is_told_and_closed(tmp_path: Path) -> None:
    async with live(tmp_path, Script(), live_ingest={"idle_timeout_ms": 100}) as client:
        error = await client.receive()
        assert isinstance(error, dict)
        assert error["error"]["message"].startswith("live request body stalled")
        assert await client.close_code() == 1008


@pytest.mark.parametrize(
    ("query", "script", "status", "param"),
    [
        ("?model=nobody", Script(), 404, "model"),
        ("?model=moonshine", Script(), 400, "model"),
        ("?voice=nobody", Script(), 400, "voice"),
        ("?speed=fast", Script(), 400, "speed"),
        ("?speed=0", Script(), 400, "speed"),
        ("?top_k=5", Script(), 400, "top_k"),
        ("?language=fr", Script(), 400, "language"),
        ("?busy_timeout_ms=x", Script(), 400, "busy_timeout_ms"),
        ("", Script(refuses=ServerBusy("busy")), 503, None),
    ],
)
async def test_a_refusal_is_a_reply_to_the_upgrade(
    tmp_path: Path, query: str, script: Script, status: int, param: str | None
) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE.replace(b"/ws", f"{PATH}{query}".encode()))
            head, _, body = (await read_all(stream)).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert json.loads(body)["error"]["param"] == param


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("?input=Hello", "model"),
        ("?", "input"),
        ("?input=", "input"),
        ("?input=Hello&sample_rate=999", "sample_rate"),
        ("?input=Hello&channels=17", "channels"),
        ("?input=Hello&sample_format=s24le", "sample_format"),
        ("?input=Hello&busy_timeout_ms=-1", "busy_timeout_ms"),
        ("?input=Hello&response_format=wav", "response_format"),
        ("?input=Hello&stream_format=SSE", "stream_format"),
        ("?input=Hello&return_text=yes", "return_text"),
        ("?input=Hello&return_text=1&stream_format=audio", "return_text"),
        ("?input=Hello&voice=nobody", "voice"),
        ("?input=Hello&voice_id=nobody", "voice"),
        ("?input=Hello&text_top_k=5", "text_top_k"),
        ("?input=Hello&language=fr", "language"),
        ("?input=Hello&model=moonshine", "model"),
    ],
)
async def test_speech_for_audio_is_validated_and_refused(tmp_path: Path, query: str, param: str) -> None:
    script = Script()
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server, await server.connect() as stream:
            head = f"POST {PATH}{query} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"
            await stream.send_all(head.encode())
            reply, _, body = (await read_all(stream)).partition(b"\r\n\r\n")
    assert int(reply.split()[1]) == 400
    error = json.loads(body)["error"]
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert script.runs == []


async def test_speech_for_audio_needs_a_chunked_body(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server, await server.connect() as stream:
            await stream.send_all(
                f"POST {PATH}?input=a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            )
            assert b"Transfer-Encoding: chunked" in await read_all(stream)
