"""Tasks, details and batches over HTTP, on real models."""

import base64
import io
import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.daemon_process import DaemonProcess, eventually, running_daemon
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors

pytestmark = pytest.mark.integration

SENTENCE = "It was the best of times. It was the worst of times."
ONE_SLOT = [{"id": "moonshine", "family": "moonshine_asr", "slots": 1}]
"""With one slot everything of an entry is in one line."""


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, models_root: Path) -> Iterator[DaemonProcess]:
    """A daemon with one slot."""
    with running_daemon(tmp_path_factory.mktemp("narrow"), models_root, models=ONE_SLOT) as running:
        yield running


@pytest.fixture(scope="module")
def spoken(client: httpx.Client) -> bytes:
    """A WAV file of `SENTENCE` by Piper, at 22.05 kHz."""
    return client.post("/v1/audio/speech", json={"model": "piper", "input": SENTENCE}).content


def answer(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


def events_of(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    *lines, end = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert end == "[DONE]"
    return [json.loads(line) for line in lines]


def frames_of(audio: str) -> tuple[int, bytes]:
    """Rate and PCM of a WAV file in base64."""
    with wave.open(io.BytesIO(base64.b64decode(audio))) as file:
        return file.getframerate(), file.readframes(file.getnframes())


def words_of(text: str) -> list[str]:
    return [word.strip(".,!?").lower() for word in text.split()]


def test_a_task_of_a_recording_has_the_words_of_a_transcription(client: httpx.Client, audio_files: Any) -> None:
    path = str(audio_files["beckett.wav"])
    task = answer(client.post("/v1/tasks/run", json={"model": "moonshine", "request": {"audio": path}}))
    assert word_errors(passage("beckett"), task["text"]) <= MAX_WORD_ERRORS
    assert task["text"] == answer(client.post("/v1/audio/transcriptions", json={"audio": path}))["text"]


def test_details_count_in_samples_of_the_recording(client: httpx.Client, spoken: bytes) -> None:
    upload = {"file": ("a.wav", spoken)}
    details = answer(client.post("/v1/audio/transcriptions/details", files=upload, data={"model": "moonshine"}))
    seconds = answer(
        client.post(
            "/v1/audio/transcriptions", files=upload, data={"model": "moonshine", "response_format": "verbose_json"}
        )
    )
    assert (details["text"], details["sample_rate"]) == (seconds["text"], 22050)
    assert [(row["start_sample"], row["end_sample"]) for row in details["segments"]] == [
        (round(row["start"] * 22050), round(row["end"] * 22050)) for row in seconds["segments"]
    ]


def test_a_streamed_recognition_is_its_events(client: httpx.Client, audio_files: Any) -> None:
    body = {"model": "moonshine-live", "audio": str(audio_files["beckett.wav"])}
    *events, done = events_of(client.post("/v1/tasks/stream", json={**body, "stream_format": "sse"}))
    pieces = [event["event"]["partial_text"]["text"] for event in events if "partial_text" in event["event"]]
    assert len(pieces) > 1
    assert "".join(pieces) == done["result"]["text"]
    assert word_errors(passage("beckett"), done["result"]["text"]) <= MAX_WORD_ERRORS
    assert done["result"]["timing"]["ttft_ms"] > 0
    assert answer(client.post("/v1/tasks/stream", json=body))["result"]["text"] == done["result"]["text"]


def test_streamed_speech_is_its_pieces(client: httpx.Client) -> None:
    body = {"model": "piper", "text": SENTENCE, "stream_format": "sse"}
    *events, done = events_of(client.post("/v1/tasks/stream", json=body))
    pieces = [frames_of(event["event"]["audio"]) for event in events if "audio" in event["event"]]
    rate, pcm = frames_of(done["result"]["audio"])
    assert len(pieces) > 1
    assert {rate for rate, _ in pieces} == {rate} == {22050}
    assert b"".join(piece for _, piece in pieces) == pcm


def test_a_stream_of_a_model_that_is_not_installed_has_a_status(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with running_daemon(tmp_path, tmp_path / "empty", models=ONE_SLOT) as daemon, daemon.client() as client:
        body = {"audio_base64": recording_base64(), "stream_format": "sse"}
        response = client.post("/v1/tasks/stream", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_installed")


def recording_base64() -> str:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(bytes(32_000))
    return base64.b64encode(file.getvalue()).decode()


def test_a_batch_of_files_has_the_transcripts_of_each(
    client: httpx.Client, spoken: bytes, audio_files: dict[str, Path]
) -> None:
    files = [("spoken.wav", spoken), *((name, audio_files[name].read_bytes()) for name in audio_files)]
    uploads = [("file", upload) for upload in files]
    *results, done = events_of(client.post("/v1/batches/transcriptions", files=uploads, data={"model": "moonshine"}))
    by_index = {event["index"]: event for event in results}
    assert [by_index[index]["filename"] for index in range(len(files))] == [name for name, _ in files]
    for index, upload in enumerate(files):
        single = answer(client.post("/v1/audio/transcriptions", files={"file": upload}, data={"model": "moonshine"}))
        assert by_index[index]["text"] == single["text"]
    assert results[0]["index"] == 0, "the shortest, which began first, is done first"
    assert done["result_count"] == len(files)
    assert done["timing"]["audio_duration_ms"] > done["timing"]["wall_ms"] > 0


def test_a_batch_of_tasks_speaks_each_text(client: httpx.Client) -> None:
    texts = ["Good morning.", SENTENCE, "Good night."]
    body = {"model": "piper", "requests": [{"text": text} for text in texts]}
    *results, done = events_of(client.post("/v1/tasks/batch", json=body))
    assert (done["type"], set(done["timing"])) == ("task.batch.done", {"wall_ms"})
    for event in results:
        upload = {"file": ("a.wav", base64.b64decode(event["result"]["audio"]))}
        heard = answer(client.post("/v1/audio/transcriptions", files=upload, data={"model": "moonshine"}))["text"]
        assert set(words_of(texts[event["index"]])) & set(words_of(heard))


def test_a_request_gets_a_slot_between_those_of_a_batch(narrow: DaemonProcess, spoken: bytes) -> None:
    files = [("file", (f"{number}.wav", spoken)) for number in range(12)]
    with (
        narrow.client() as batch,
        narrow.client() as other,
        batch.stream("POST", "/v1/batches/transcriptions", files=files) as response,
    ):
        lines = response.iter_lines()
        first = next(line for line in lines if line)
        assert "batch.transcription.result" in first
        answer(other.post("/v1/audio/transcriptions", files={"file": ("a.wav", spoken)}))
        row = answer(other.get("/v1/models/moonshine"))
        assert row["active_slots"] == 1, "the batch was still at work when the other request had been answered"
        assert sum("batch.transcription.result" in line for line in lines) == len(files) - 1


def test_a_client_that_leaves_a_batch_frees_the_slots(
    daemon: DaemonProcess, client: httpx.Client, audio_files: dict[str, Path]
) -> None:
    files = [("file", ("a.wav", audio_files["two_cities.wav"].read_bytes())) for _ in range(20)]
    with daemon.client() as batch:
        stream = {"files": files, "data": {"model": "moonshine"}}
        with batch.stream("POST", "/v1/batches/transcriptions", **stream) as response:
            next(line for line in response.iter_lines() if line)

    def free() -> bool:
        row = answer(client.get("/v1/models/moonshine"))
        return (row["active_slots"], row["queued_requests"]) == (0, 0)

    eventually(free, limit_s=1.0, what="a slot was still taken a second after the client had left")
    assert daemon.footprint().uploads == 0


def test_a_missing_file_of_a_batch_leaks_no_slot(client: httpx.Client) -> None:
    requests = [{"audio_base64": recording_base64()}, {"audio": "/nonexistent.wav"}]
    response = client.post("/v1/tasks/batch", json={"model": "vad", "requests": requests})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "requests[1].audio")
    row = answer(client.get("/v1/models/vad"))
    assert (row["active_slots"], row["queued_requests"]) == (0, 0)
