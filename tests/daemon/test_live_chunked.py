"""The chunked upload that is answered while it comes, over real sockets, with scripted runs.

A raw socket is the client: what is tested is what it may do with the connection.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from tests.fakes.asgi import Served, read_all, serving
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.errors import ModelFailed, ServerBusy, WorkerDied
from audiocpp.engines.tasks import TextDelta

PATH = "/v1/audio/transcriptions/live"


def hello(**more: Any) -> Script:
    return Script(events=[TextDelta("Hello"), TextDelta(" there")], **more)


class Upload:
    """A request whose head has been sent."""

    def __init__(self, server: Served, stream: trio.SocketStream) -> None:
        self.server = server
        self.stream = stream
        self._received = b""

    async def chunk(self, data: bytes) -> None:
        await self.stream.send_all(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.stream.send_all(b"0\r\n\r\n")

    async def event(self) -> dict[str, Any]:
        """The next event, while the request may still be going on."""
        while (at := self._received.find(b"\n\n")) < 0:
            piece = await self.stream.receive_some()
            assert piece, self._received
            self._received += piece
        event, self._received = self._received[:at], self._received[at + 2 :]
        return json.loads(event[event.index(b"data: ") + 6 :])

    async def rest(self) -> tuple[list[dict[str, Any]], bool]:
        """All events until the end of the reply, and whether `[DONE]` came."""
        received = (self._received + await read_all(self.stream)).decode()
        assert received.endswith("0\r\n\r\n"), received
        lines = [line.removeprefix("data: ") for line in received.splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"], "[DONE]" in lines


@asynccontextmanager
async def upload(
    folder: Path, script: Script, query: str = "", *, headers: str = "", **config: Any
) -> AsyncIterator[Upload]:
    with trio.fail_after(5):
        app = fake_app(folder, script, **config)
        async with serving(app, drain_s=2.0) as server, await server.connect() as stream:
            head = f"POST {PATH}{query} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
            await stream.send_all(head.encode())
            yield Upload(server, stream)


async def refusal(server: Served, request: str) -> tuple[int, dict[str, Any]]:
    async with await server.connect() as stream:
        await stream.send_all(request.encode())
        head, _, body = (await read_all(stream)).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


async def test_events_come_while_the_upload_goes_on(tmp_path: Path) -> None:
    script = hello()
    async with upload(tmp_path, script) as client:
        created = await client.event()
        assert (created["type"], created["model"], created["resume_ms"]) == ("session.created", "moonshine-live", 0)
        await client.chunk(b"abc")
        await client.chunk(b"d")
        await client.end()
        events, done = await client.rest()
    assert [event["type"] for event in events] == [*2 * ["transcript.text.delta"], "transcript.text.done"]
    assert events[-1]["text"] == "".join(event["delta"] for event in events[:-1]) == "Hello there"
    assert done
    assert bytes(script.run.pushed) == b"abcd"
    assert script.run.completed


async def test_the_reply_is_a_stream_of_events_on_a_connection_that_ends_with_it(tmp_path: Path) -> None:
    async with upload(tmp_path, hello()) as client:
        await client.end()
        head = (await read_all(client.stream)).partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
    assert head[0] == "http/1.1 200 ok"
    expected = {
        "content-type: text/event-stream; charset=utf-8",
        "cache-control: no-cache",
        "x-accel-buffering: no",
        "transfer-encoding: chunked",
        "connection: close",
    }
    assert expected <= set(head)


async def test_a_client_that_waits_to_be_told_to_continue_is_told(tmp_path: Path) -> None:
    async with upload(tmp_path, hello(), headers="Expect: 100-continue\r\n") as client:
        received = b""
        while b"100 Continue" not in received and b"100 \r\n" not in received:
            received += await client.stream.receive_some()
        await client.end()
        assert (await client.rest())[1]


async def test_audio_parameters_and_limits_are_those_of_the_query_and_the_entry(tmp_path: Path) -> None:
    script = hello()
    query = "?model=moonshine-live&sample_rate=8000&channels=2&sample_format=mulaw&partials=1&endpoint_silence_ms=300"
    async with upload(tmp_path, script, query, live_ingest={"idle_timeout_ms": 7000}) as client:
        assert (await client.event())["limits"]["idle_timeout_ms"] == 7000
        await client.end()
        await client.rest()
    audio = script.run.request.audio
    assert audio is not None
    assert (audio.sample_rate, audio.channels, audio.encoding) == (8000, 2, "mulaw")
    assert script.run.request.options == {"partials": True, "endpoint_silence_ms": 300}


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"zz\r\n", "invalid chunk size"),
        (b"3\r\nabcd", "not terminated by CRLF"),
        (b"800001\r\n", "chunk size exceeds the maximum"),
    ],
)
async def test_broken_framing_is_an_error_event_and_no_done(tmp_path: Path, sent: bytes, message: str) -> None:
    script = hello()
    async with upload(tmp_path, script) as client:
        await client.chunk(b"abcd")
        await client.stream.send_all(sent)
        events, done = await client.rest()
        assert (events[-1]["type"], done) == ("error", False)
        assert message in events[-1]["error"]["message"]
        assert events[-1]["error"]["type"] == "invalid_request_error"
        await script.run.left.wait()
    assert not script.run.completed or not done


@pytest.mark.parametrize("before", [b"", b"4\r\nab", b"4\r\nabcd\r\n", b"4\r\nabcd\r\n0\r\n"])
async def test_an_early_half_close_is_an_error_event_and_no_done(tmp_path: Path, before: bytes) -> None:
    async with upload(tmp_path, hello()) as client:
        await client.stream.send_all(before)
        await client.stream.send_eof()
        events, done = await client.rest()
    assert "closed before the terminating chunk" in events[-1]["error"]["message"]
    assert [event["type"] for event in events] == ["session.created", "error"]
    assert not done


async def test_a_half_close_after_the_body_waits_for_the_answer(tmp_path: Path) -> None:
    async with upload(tmp_path, hello()) as client:
        await client.chunk(b"abcd")
        await client.end()
        await client.stream.send_eof()
        events, done = await client.rest()
    assert (events[-1]["type"], done) == ("transcript.text.done", True)


async def test_a_client_that_leaves_frees_its_slot(tmp_path: Path) -> None:
    script = hello()
    async with upload(tmp_path, script) as client:
        await client.chunk(b"abcd")
        await client.event()
        await client.stream.aclose()
        with trio.fail_after(1):
            await script.run.left.wait()


async def test_a_client_that_leaves_while_the_model_is_behind_frees_its_slot(tmp_path: Path) -> None:
    script = hello(deaf=True)
    async with upload(tmp_path, script) as client:
        with trio.move_on_after(0.3):
            while True:
                await client.chunk(bytes(1 << 16))
        client.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await client.stream.aclose()
        with trio.fail_after(1):
            await script.run.left.wait()


@pytest.mark.parametrize(
    ("limits", "sent", "message"),
    [
        ({"idle_timeout_ms": 100}, b"", "live request body stalled"),
        ({"total_timeout_ms": 100}, b"", "live request body exceeded its total deadline"),
        ({"max_body_bytes": 15}, b"4\r\nabcd\r\n4\r\nabcd\r\n", "live request body exceeded its maximum size"),
        ({"max_chunk_bytes": 3}, b"4\r\n", "chunk size exceeds the maximum"),
    ],
)
async def test_a_limit_ends_the_upload_in_the_words_of_the_reference(
    tmp_path: Path, limits: dict[str, int], sent: bytes, message: str
) -> None:
    script = hello()
    async with upload(tmp_path, script, live_ingest=limits) as client:
        await client.stream.send_all(sent)
        events, done = await client.rest()
        assert (events[-1]["error"]["message"], done) == (message, False)
        await script.run.left.wait()


async def test_a_worker_that_dies_is_an_error_event(tmp_path: Path) -> None:
    async with upload(tmp_path, Script(fails=WorkerDied("the worker died"))) as client:
        await client.end()
        events, done = await client.rest()
    assert (events[-1]["error"]["code"], done) == ("worker_died", False)


async def test_stopping_the_daemon_gives_the_rest(tmp_path: Path) -> None:
    async with upload(tmp_path, hello()) as client:
        await client.chunk(b"abcd")
        await client.event()
        client.server.stop.set()
        events, done = await client.rest()
    assert (events[-1]["type"], done) == ("transcript.text.done", True)


@pytest.mark.parametrize("events", [3000, 10_000], ids=["held back", "more than is kept"])
async def test_a_client_that_reads_nothing_is_dropped(tmp_path: Path, events: int) -> None:
    script = Script(events=events * [TextDelta("x" * 10_000)], hangs=True)
    async with upload(tmp_path, script, live_ingest={"send_timeout_ms": 200}) as client:
        await client.end()
        await script.opened.wait()
        await script.run.left.wait()


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("?sample_rate=999", "sample_rate"),
        ("?sample_rate=384001", "sample_rate"),
        ("?sample_rate=16k", "sample_rate"),
        ("?sample_rate=16000.0", "sample_rate"),
        ("?channels=0", "channels"),
        ("?channels=17", "channels"),
        ("?sample_format=s24le", "sample_format"),
        ("?busy_timeout_ms=-1", "busy_timeout_ms"),
        ("?busy_timeout_ms=2147483648", "busy_timeout_ms"),
        ("?model=moonshine", "model"),
        ("?model=piper", "model"),
        ("?language=fr", "language"),
        ("?words=yes", "words"),
        ("?words=true", "words"),
        ("?vad=maybe", "vad"),
        ("?endpoint_silence_ms=99", "endpoint_silence_ms"),
    ],
)
async def test_a_bad_parameter_is_400_before_anything_is_taken(tmp_path: Path, query: str, param: str) -> None:
    script = hello()
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server:
            head = f"POST {PATH}{query} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            status, error = await refusal(server, head)
    assert (status, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert script.runs == []


async def test_an_unknown_model_is_404(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, hello())) as server:
            head = f"POST {PATH}?model=x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            status, error = await refusal(server, head)
    assert (status, error["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("refuses", "status", "code"),
    [(ServerBusy("busy"), 503, "server_busy"), (ModelFailed("broken"), 503, "model_failed")],
)
async def test_what_stands_in_the_way_of_the_model_has_a_status(
    tmp_path: Path, refuses: Any, status: int, code: str
) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, Script(refuses=refuses))) as server:
            head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"
            refused, error = await refusal(server, head)
    assert (refused, error["code"]) == (status, code)


@pytest.mark.parametrize(
    "coding",
    [
        "Content-Length: 4\r\n",
        "Content-Length: 0\r\n",
        "Accept: */*\r\n",
        "Transfer-Encoding: notchunked\r\n",
        "Transfer-Encoding: chunked-garbage\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_only_a_chunked_body_is_taken(tmp_path: Path, coding: str) -> None:
    script = hello()
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server:
            head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{coding}\r\n"
            status, error = await refusal(server, head)
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert "chunked" in error["message"]
    assert script.runs == []


async def test_other_routes_still_undo_chunks(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, hello())) as server:
            head = "POST /v1/tasks/unload_models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            body = '{"model_ids": []}'
            chunks = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n"
            async with await server.connect() as stream:
                await stream.send_all(f"{head}Transfer-Encoding: chunked\r\n\r\n{chunks}".encode())
                assert b'{"unloaded": []' in await read_all(stream)


async def test_an_ordinary_client_that_streams_its_upload_gets_the_answer(tmp_path: Path) -> None:
    script = hello()

    def audio() -> Iterator[bytes]:
        for _ in range(50):
            yield bytes(1000)

    def post(url: str) -> httpx.Response:
        with httpx.Client(trust_env=False) as client:
            return client.post(url, content=audio())

    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server:
            answer = await trio.to_thread.run_sync(post, f"http://127.0.0.1:{server.port}{PATH}")
    assert answer.status_code == 200
    assert answer.text.endswith("data: [DONE]\n\n")
    assert len(script.run.pushed) == 50_000
