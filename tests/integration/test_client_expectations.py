"""What programs that were written for the reference server rely on (`tests/data/contract.json`)."""

import base64
import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile
from tests.integration.daemon_process import DaemonProcess

pytestmark = pytest.mark.integration

SENTENCES = (
    "It was the best of times. It was the worst of times. It was the age of wisdom. We had everything before us."
)
TIMING_HEADERS = ("X-AudioCPP-Wall-Ms", "X-AudioCPP-Audio-Duration-Ms", "X-AudioCPP-RTF")


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


@pytest.fixture(scope="module")
def spoken(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/audio/speech", json={"model": "piper", "input": SENTENCES})


def events(reply: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_the_page_finds_its_five_keys_and_the_options_of_the_entries(client: httpx.Client) -> None:
    health = client.get("/health").json()
    assert {"status", "backend", "models", "ui", "ui_management"} <= health.keys()
    rows = client.get("/v1/models?include_session_options=true").json()["data"]
    for row in rows:
        assert {"id", "family", "task", "mode", "path", "session_options", "loaded"} <= row.keys()
        assert all(isinstance(value, str) for value in row["session_options"].values())
    error = client.post("/v1/audio/speech", json={"model": "nobody", "input": "a"}).json()["error"]
    assert isinstance(error["message"], str)


def test_a_strict_reader_finds_nothing_wrong_with_the_lists(client: httpx.Client) -> None:
    health = client.get("/health").json()
    assert health["status"] == "ok"
    assert isinstance(health["backend"], str)
    assert type(health["models"]) is int
    models = client.get("/v1/models").json()
    assert models["object"] == "list"
    assert {(row["object"], row["owned_by"]) for row in models["data"]} == {("model", "engine")}
    ids = [row["id"] for row in models["data"]]
    assert len(set(ids)) == len(ids) == health["models"]
    assert all(name and name == name.strip() for name in ids)
    voices = client.get("/v1/audio/voices", params={"model": "piper"}).json()["voices"]
    assert all(isinstance(voice, str) for voice in voices)
    assert len(set(voices)) == len(voices) > 0


def test_a_strict_reader_finds_nothing_wrong_with_the_file(spoken: httpx.Response) -> None:
    data = spoken.content
    assert spoken.headers["Content-Type"] == "audio/wav"
    assert int(spoken.headers["Content-Length"]) == len(data)
    riff, size, wave = struct.unpack_from("<4sI4s", data)
    assert (riff, size, wave) == (b"RIFF", len(data) - 8, b"WAVE")
    name, length, tag, channels, rate, byte_rate, align, bits = struct.unpack_from("<4sIHHIIHH", data, 12)
    assert (name, length, tag, bits) == (b"fmt ", 16, 1, 16)
    assert (align, byte_rate) == (channels * 2, rate * channels * 2)
    name, length = struct.unpack_from("<4sI", data, 36)
    assert (name, length) == (b"data", len(data) - 44)
    assert length > 0
    assert length % align == 0


def test_a_strict_reader_finds_plain_decimals_in_the_timing(spoken: httpx.Response) -> None:
    for name in TIMING_HEADERS:
        whole, point, decimals = spoken.headers[name].partition(".")
        assert (whole.isdecimal(), point, decimals.isdecimal(), len(decimals)) == (True, ".", True, 6), name
    wall_ms, duration_ms, rtf = (float(spoken.headers[name]) for name in TIMING_HEADERS)
    assert duration_ms == pytest.approx((len(spoken.content) - 44) / 2 / 22_050 * 1e3, abs=0.001)
    assert rtf == pytest.approx(wall_ms / duration_ms, abs=1e-5)


def test_the_app_finds_what_it_unloaded_and_its_audio_in_the_json_form(client: httpx.Client) -> None:
    reply = client.post("/v1/audio/speech", json={"model": "piper", "input": "Yes.", "response_format": "json"})
    body = reply.json()
    assert base64.b64decode(body["audio"]).startswith(b"RIFF")
    assert (body["format"], set(body["timing"])) == ("wav", {"wall_ms", "audio_duration_ms", "rtf"})
    unloaded = client.post("/v1/tasks/unload_models", json={"model_ids": ["piper", "nobody"]}).json()
    assert unloaded == {"unloaded": ["piper"], "not_found": ["nobody"]}
    plain = client.post("/v1/tasks/unload_models", json={"model_ids": []}).json()
    assert plain == {"unloaded": [], "not_found": []}


def test_a_gateway_knows_a_stream_by_its_type_and_passes_the_rest_as_it_is(
    client: httpx.Client, spoken: httpx.Response
) -> None:
    request = {"model": "vad", "request": {"audio_base64": base64.b64encode(spoken.content).decode()}}
    whole = client.post("/v1/tasks/stream", json=request)
    assert whole.headers["Content-Type"].startswith("application/json")
    assert int(whole.headers["Content-Length"]) == len(whole.content)
    assert set(whole.json()) == {"events", "result"}
    streamed = client.post("/v1/tasks/stream", json={**request, "stream_format": "sse"})
    assert streamed.headers["Content-Type"].startswith("text/event-stream")
    *_, done, end = events(streamed)
    assert (done["type"], end) == ("task.stream.done", "[DONE]")


def test_a_batch_takes_thirty_two_files(client: httpx.Client, tmp_path: Path) -> None:
    path = tmp_path / "silence.wav"
    soundfile.write(path, [0.0] * 1600, 16_000)
    files = [("file", (f"{number}.wav", path.read_bytes())) for number in range(32)]
    reply = client.post("/v1/batches/transcriptions", files=files, data={"model": "moonshine"})
    assert reply.status_code == 200, reply.text
    *results, done, end = events(reply)
    assert sorted(result["index"] for result in results) == list(range(32))
    assert {result["filename"] for result in results} == {f"{number}.wav" for number in range(32)}
    assert (done["result_count"], end) == (32, "[DONE]")


def test_streamed_speech_is_spread_in_time_and_ends_with_its_timing(client: httpx.Client) -> None:
    arrivals: list[float] = []
    received = b""
    body = {"model": "piper", "input": SENTENCES * 3, "stream": True}
    with client.stream("POST", "/v1/audio/speech", json=body) as reply:
        assert reply.status_code == 200
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        for piece in reply.iter_raw():
            arrivals.append(time.monotonic())
            received += piece
    *deltas, done, end = [
        line if line == "[DONE]" else json.loads(line)
        for line in (block.removeprefix("data: ") for block in received.decode().split("\n\n") if block)
    ]
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert all(len(base64.b64decode(delta["audio"])) % 2 == 0 for delta in deltas)
    assert (done["type"], end) == ("speech.audio.done", "[DONE]")
    assert done["timing"]["ttft_ms"] > 0
    assert len(deltas) >= 3
    assert arrivals[-1] - arrivals[0] > 0.05


def test_a_raw_stream_has_no_events(client: httpx.Client) -> None:
    reply = client.post("/v1/audio/speech", json={"model": "piper", "input": "Yes.", "stream_format": "audio"})
    assert (reply.status_code, reply.headers["Content-Type"]) == (200, "application/octet-stream")
    assert b"data: " not in reply.content
    assert len(reply.content) % 2 == 0
