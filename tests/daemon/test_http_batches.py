"""POST /v1/tasks/batch and /v1/batches/transcriptions: order, admission, what ends a batch, and the events' shapes."""

import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import serving
from tests.fakes.services import FakeRun, Script, fake_app

from audiocpp.daemon.backend import EXTENSION
from audiocpp.daemon.errors import ModelFailed, RunFailed, ServerBusy
from audiocpp.daemon.http.batches import MAX_REQUESTS
from audiocpp.engines.tasks import AudioChunk, Segment, TextDelta

TASKS = "/v1/tasks/batch"
TRANSCRIPTIONS = "/v1/batches/transcriptions"

HEARD = (TextDelta("Hello"), Segment(index=0, start=0.5, end=1.0, text="Hello"))
TIMING = {"audio_duration_ms", "rtf", "wall_ms"}


def recording(samples: bytes = bytes(16)) -> dict[str, str]:
    return {"audio_base64": base64.b64encode(b"FAKE" + samples).decode()}


class Gated(Script):
    """Runs that end when the test says so. `number` is the first byte of a recording's samples."""

    def __init__(self, **members: Any) -> None:
        super().__init__(events=HEARD, **members)
        self.gates: dict[int, trio.Event] = {}
        self.most_at_once = 0

    @asynccontextmanager
    async def run_task(self, *args: Any, **named: Any) -> AsyncIterator["FakeRun"]:
        async with super().run_task(*args, **named) as run:
            self.most_at_once = max(self.most_at_once, sum(not run.left.is_set() for run in self.runs))
            finish = run.finish

            async def finish_when_told() -> None:
                await self.gate(run.pushed[0]).wait()
                await finish()

            run.finish = finish_when_told  # type: ignore[method-assign]
            yield run

    def gate(self, number: int) -> trio.Event:
        return self.gates.setdefault(number, trio.Event())


async def post(app: Any, path: str, **request: Any) -> Any:
    with trio.fail_after(5):
        return await app.test_client().post(path, **request)


async def send_tasks(folder: Path, script: Script, *requests: Any, model: str = "vad", **members: Any) -> Any:
    body = {"model": model, "requests": list(requests), **members}
    return await post(fake_app(folder, script), TASKS, data=json.dumps(body).encode())


def part(name: str, data: bytes, more: str = "") -> bytes:
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + data + b"\r\n"


async def send_form(app: Any, *files: bytes, **fields: str) -> Any:
    """The files are called `0.wav`, `1.wav`, …"""
    parts = [part(name, value.encode()) for name, value in fields.items()]
    parts += [part("file", data, f'; filename="{index}.wav"') for index, data in enumerate(files)]
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    return await post(app, TRANSCRIPTIONS, data=b"".join(parts) + b"--x--", headers=headers)


async def send_files(folder: Path, script: Script, *files: bytes, **fields: str) -> Any:
    return await send_form(fake_app(folder, script), *files, **fields)


async def events_of(response: Any) -> list[Any]:
    with trio.fail_after(5):
        text = await response.get_data(as_text=True)
    assert response.status_code == 200, text
    assert response.content_type == "text/event-stream; charset=utf-8"
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def refused(response: Any, status: int = 400) -> tuple[str, str]:
    error = (await response.get_json())["error"]
    assert response.status_code == status, error
    return error["param"], error["message"]


async def test_every_request_of_a_batch_has_its_result(tmp_path: Path) -> None:
    script = Script(events=HEARD)
    *results, done, end = await events_of(await send_tasks(tmp_path, script, recording(), recording()))
    assert sorted(results, key=lambda event: event["index"]) == [
        {
            "type": "task.batch.result",
            "index": index,
            "result": {"segments": [{"start_sample": 4000, "end_sample": 8000, "text": "Hello"}], "timing": None},
        }
        for index in (0, 1)
    ]
    assert (done["type"], done["result_count"], end) == ("task.batch.done", 2, "[DONE]")
    assert set(done["timing"]) == TIMING
    assert done["timing"]["audio_duration_ms"] == 4000.0
    assert {run.request.mode for run in script.runs} == {"offline"}


async def test_a_batch_without_recordings_has_only_the_time_that_it_took(tmp_path: Path) -> None:
    script = Script(events=[AudioChunk(pcm=bytes(8), sample_rate=22050)])
    response = await send_tasks(tmp_path, script, {"text": "one"}, {"text": "two"}, model="piper")
    *results, done, _ = await events_of(response)
    assert {event["result"]["sample_rate"] for event in results} == {22050}
    assert set(done["timing"]) == {"wall_ms"}


async def test_files_become_transcripts_under_their_names(tmp_path: Path) -> None:
    script = Script(events=HEARD)
    response = await send_files(tmp_path, script, b"FAKE" + bytes(4), b"FAKE", model="moonshine", prompt="Hamm")
    *results, done, end = await events_of(response)
    first, empty = sorted(results, key=lambda event: event["index"])
    assert list(first.items()) == [
        ("type", "batch.transcription.result"),
        ("index", 0),
        ("filename", "0.wav"),
        ("text", "Hello"),
        ("language", "en"),
        ("segments", [{"start_sample": 4000, "end_sample": 8000, "text": "Hello"}]),
        ("sample_rate", 8000),
    ]
    assert empty == {
        "type": "batch.transcription.result",
        "index": 1,
        "filename": "1.wav",
        "text": "",
        "language": "en",
    }
    assert (done["type"], done["result_count"], end) == ("batch.transcription.done", 2, "[DONE]")
    assert set(done["timing"]) == TIMING
    assert script.run.request.prompt == "Hamm"


async def test_results_come_in_the_order_in_which_they_are_done(tmp_path: Path) -> None:
    script = Gated()
    indexes = []
    async with stream_of(tmp_path, script, count=2) as events:
        for number in (1, 0):
            script.gate(number).set()
            indexes.append((await events.next())["index"])
    assert indexes == [1, 0]


async def test_no_more_run_at_once_than_the_entry_has_slots(tmp_path: Path) -> None:
    script = Gated()
    async with stream_of(tmp_path, script, count=6, slots=3) as events:
        for number in range(6):
            script.gate(number).set()
            assert (await events.next())["index"] == number
    assert script.most_at_once == 3


async def test_a_client_that_leaves_ends_the_whole_batch(tmp_path: Path) -> None:
    script = Gated()
    async with stream_of(tmp_path, script, count=8, slots=2) as events:
        script.gate(0).set()
        await events.next()
    for run in script.runs:
        with trio.fail_after(1):
            await run.left.wait()
    assert len(script.runs) <= 4
    assert sum(run.completed for run in script.runs) == 1


class Events:
    """The events of a reply, as they come."""

    def __init__(self, connection: trio.SocketStream) -> None:
        self._connection = connection
        self._received = b""

    async def next(self) -> Any:
        while not (event := re.search(rb"data: (.+)\n\n", self._received)):
            self._received += await self._connection.receive_some()
        self._received = self._received[event.end() :]
        return json.loads(event[1])


@asynccontextmanager
async def stream_of(folder: Path, script: Script, *, count: int, slots: int = 2) -> AsyncIterator[Events]:
    """The events of a batch of `count` recordings over a real connection, which is closed with the block."""
    app = fake_app(folder, script, models=[{"id": "vad", "family": "silero_vad", "slots": slots}])
    body = json.dumps({"requests": [recording(bytes([number] * 4)) for number in range(count)]}).encode()
    head = f"POST {TASKS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    with trio.fail_after(5):
        async with serving(app) as server:
            async with await server.connect() as connection:
                await connection.send_all(head.encode() + body)
                yield Events(connection)
            for run in script.runs:
                await run.left.wait()


async def test_only_the_first_request_keeps_to_the_busy_timeout_of_the_batch(tmp_path: Path) -> None:
    script = Script(events=HEARD)
    await events_of(await send_tasks(tmp_path, script, *[recording()] * 3, busy_timeout_ms=50))
    assert script.busy_timeouts_ms == [50, None, None]


@pytest.mark.parametrize("refusal", [ServerBusy("all slots are taken"), ModelFailed("out of order")])
async def test_what_stands_in_the_way_of_a_batch_has_a_status(tmp_path: Path, refusal: Any) -> None:
    await refused(await send_tasks(tmp_path, Script(refuses=refusal), recording()), 503)
    await refused(await send_files(tmp_path, Script(refuses=refusal), b"FAKE" + bytes(4)), 503)


async def test_a_run_that_fails_ends_the_batch_with_an_error_event_that_names_it(tmp_path: Path) -> None:
    script = Script(fails=RunFailed("the graph failed"))
    (last,) = await events_of(await send_tasks(tmp_path, script, recording(), recording()))
    assert last["type"] == "error"
    assert last["error"]["message"] in ("requests[0]: the graph failed", "requests[1]: the graph failed")


@pytest.mark.parametrize(
    ("requests", "param"),
    [
        ([], "requests"),
        (None, "requests"),
        ({}, "requests"),
        ([5], "requests[0]"),
        ([recording(), {}], "requests[1].audio"),
        ([recording(), {"audio": "/nonexistent"}], "requests[1].audio"),
        ([recording(), {"audio_base64": "!"}], "requests[1].audio_base64"),
        ([recording(), {"audio_base64": base64.b64encode(b"text").decode()}], "requests[1].audio_base64"),
        ([recording(), {**recording(), "options": {"tempo": 1}}], "requests[1].options.tempo"),
        ([recording()] * (MAX_REQUESTS + 1), "requests"),
    ],
)
async def test_a_bad_request_is_refused_before_any_is_run(tmp_path: Path, requests: Any, param: str) -> None:
    script = Script(events=HEARD)
    body = {"model": "vad", "requests": requests}
    response = await post(fake_app(tmp_path, script), TASKS, data=json.dumps(body).encode())
    assert (await refused(response))[0] == param
    assert script.runs == []


@pytest.mark.parametrize(
    ("files", "form", "param"),
    [
        ([], {"model": "moonshine"}, "file"),
        ([b"FAKE", b""], {}, "file[1]"),
        ([b"FAKE", b"text"], {}, "file[1]"),
        ([b"FAKE"], {"options": "[]"}, "options"),
        ([b"FAKE"], {"options": '{"beam": 5}'}, "options.beam"),
        ([b"FAKE"], {"stream": "true"}, "stream"),
        ([b"FAKE"], {"busy_timeout_ms": "-1"}, "busy_timeout_ms"),
        ([b"FAKE"], {"response_format": "srt"}, "response_format"),
        ([b"FAKE"], {"model": "moonshine-live"}, "model"),
        ([b"FAKE"], {"model": "vad"}, "model"),
    ],
)
async def test_a_bad_form_is_refused_before_any_file_is_run(
    tmp_path: Path, files: list[bytes], form: dict[str, str], param: str
) -> None:
    script = Script(events=HEARD)
    assert (await refused(await send_files(tmp_path, script, *files, **form)))[0] == param
    assert script.runs == []


async def test_options_apply_to_all_files(tmp_path: Path) -> None:
    script = Script(events=HEARD)
    files = [b"FAKE" + bytes(4)] * 2
    await events_of(await send_files(tmp_path, script, *files, options='{"vad": "off"}'))
    assert [run.request.options for run in script.runs] == [{"vad": "off"}] * 2


async def test_a_streaming_entry_does_not_batch(tmp_path: Path) -> None:
    param, message = await refused(await send_tasks(tmp_path, Script(), recording(), model="moonshine-live"))
    assert (param, "offline" in message) == ("model", True)


async def test_an_unknown_model_is_404_on_both_routes(tmp_path: Path) -> None:
    await refused(await send_tasks(tmp_path, Script(), recording(), model="nope"), 404)
    await refused(await send_files(tmp_path, Script(), b"FAKE", model="nope"), 404)


async def test_files_need_a_form(tmp_path: Path) -> None:
    assert (await refused(await post(fake_app(tmp_path), TRANSCRIPTIONS, data=b"{}")))[0] == "Content-Type"


async def test_the_files_of_a_batch_share_the_memory_of_one_and_leave_the_disk(tmp_path: Path) -> None:
    script = Script(events=HEARD)
    data = b"FAKE" + bytes(400_000)
    app = fake_app(tmp_path, script)
    held = []
    create = app.extensions[EXTENSION].spool.create

    async def counted() -> Any:
        held.append(await create())
        return held[-1]

    app.extensions[EXTENSION].spool.create = counted
    *results, _, end = await events_of(await send_form(app, *[data] * 5))
    assert (len(results), end) == (5, "[DONE]")
    assert len(held) == 3
    assert [bytes(run.pushed) for run in script.runs] == [data[4:]] * 5
    assert app.extensions[EXTENSION].spool.used_bytes == 0
    assert list((tmp_path / "cache").rglob("upload-*")) == []
