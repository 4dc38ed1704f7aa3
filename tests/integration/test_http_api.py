"""Transcription, speech and voice activity over HTTP, on real models."""

import base64
import io
import json
import struct
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile
import soxr
from tests.integration.daemon_process import DaemonProcess

pytestmark = pytest.mark.integration

SENTENCE = "It was the best of times, it was the worst of times."
WORDS = {"best", "worst", "times"}


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


@pytest.fixture(scope="module")
def spoken(client: httpx.Client) -> bytes:
    """A WAV file of `SENTENCE` by Piper."""
    response = client.post("/v1/audio/speech", json={"model": "piper", "input": SENTENCE})
    assert response.status_code == 200, response.text
    return response.content


def words_of(text: str) -> set[str]:
    return {word.strip(".,!?").lower() for word in text.split()}


def transcribe(client: httpx.Client, data: bytes, **fields: str) -> httpx.Response:
    response = client.post("/v1/audio/transcriptions", files={"file": ("speech", data)}, data=fields)
    assert response.status_code == 200, response.text
    return response


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_speech_is_a_canonical_wav_file(client: httpx.Client, spoken: bytes) -> None:
    riff, size, kind, fmt, fmt_size = struct.unpack("<4sI4s4sI", spoken[:20])
    assert (riff, size, kind, fmt, fmt_size) == (b"RIFF", len(spoken) - 8, b"WAVE", b"fmt ", 16)
    assert spoken[36:40] == b"data"
    assert struct.unpack("<I", spoken[40:44])[0] == len(spoken) - 44
    with wave.open(io.BytesIO(spoken)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (22050, 1, 2)
        assert file.getnframes() > 22050


def test_the_headers_tell_the_length_of_the_audio(client: httpx.Client) -> None:
    response = client.post("/v1/audio/speech", json={"model": "piper", "input": SENTENCE})
    with wave.open(io.BytesIO(response.content)) as file:
        duration_ms = file.getnframes() / file.getframerate() * 1e3
    assert float(response.headers["X-AudioCPP-Audio-Duration-Ms"]) == pytest.approx(duration_ms, abs=0.1)
    assert 0 < float(response.headers["X-AudioCPP-RTF"]) < 5
    assert int(response.headers["Content-Length"]) == len(response.content)


def test_what_was_spoken_is_recognised(client: httpx.Client, spoken: bytes) -> None:
    body = transcribe(client, spoken, model="moonshine").json()
    assert words_of(body["text"]) >= WORDS
    assert set(body) == {"text", "timing"}


@pytest.mark.parametrize("body", [{"stream": True}, {"stream_format": "audio"}], ids=["events", "audio"])
def test_streamed_speech_says_the_same(client: httpx.Client, body: dict[str, Any]) -> None:
    response = client.post("/v1/audio/speech", json={"model": "piper", "input": SENTENCE, **body})
    if "stream" in body:
        *deltas, done = events_of(response)
        assert done["type"] == "speech.audio.done"
        pcm = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    else:
        pcm = response.content
    assert len(pcm) % 2 == 0
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(22050)
        out.writeframes(pcm)
    assert words_of(transcribe(client, file.getvalue()).json()["text"]) >= WORDS


def test_a_path_gives_the_words_of_the_upload(client: httpx.Client, spoken: bytes, tmp_path: Path) -> None:
    (tmp_path / "spoken").write_bytes(spoken)
    response = client.post("/v1/audio/transcriptions", json={"model": "moonshine", "audio": str(tmp_path / "spoken")})
    assert response.json()["text"] == transcribe(client, spoken).json()["text"]


def test_a_streamed_transcript_is_its_deltas(client: httpx.Client, spoken: bytes) -> None:
    *deltas, done = events_of(transcribe(client, spoken, stream="true"))
    assert "".join(delta["delta"] for delta in deltas) == done["text"]
    assert words_of(done["text"]) >= WORDS


def with_junk_first(data: bytes) -> bytes:
    return data[:12] + b"JUNK" + struct.pack("<I", 5) + bytes(6) + data[12:]


def with_endless_sizes(data: bytes) -> bytes:
    return data[:4] + b"\xff\xff\xff\xff" + data[8:40] + b"\xff\xff\xff\xff" + data[44:]


def at_8_khz_stereo(data: bytes) -> bytes:
    samples, rate_hz = soundfile.read(io.BytesIO(data), dtype="float32")
    file = io.BytesIO()
    mono = soxr.resample(samples, rate_hz, 8000)
    soundfile.write(file, [[sample, sample] for sample in mono], 8000, format="WAV", subtype="PCM_16")
    return file.getvalue()


def as_extensible_float(data: bytes) -> bytes:
    samples, rate_hz = soundfile.read(io.BytesIO(data), dtype="float32")
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format="WAVEX", subtype="FLOAT")
    return file.getvalue()


def encoded(data: bytes, container: str) -> bytes:
    samples, rate_hz = soundfile.read(io.BytesIO(data), dtype="float32")
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=container)
    return file.getvalue()


FORMS = {
    "JUNK before fmt": with_junk_first,
    "sizes of 0xFFFFFFFF": with_endless_sizes,
    "8 kHz stereo": at_8_khz_stereo,
    "extensible float": as_extensible_float,
    "FLAC": lambda data: encoded(data, "FLAC"),
    "OGG": lambda data: encoded(data, "OGG"),
    "MP3": lambda data: encoded(data, "MP3"),
    "AIFF": lambda data: encoded(data, "AIFF"),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_the_recording_has_its_words(client: httpx.Client, spoken: bytes, name: str) -> None:
    body = transcribe(client, FORMS[name](spoken), response_format="verbose_json").json()
    assert words_of(body["text"]) >= WORDS
    with wave.open(io.BytesIO(spoken)) as file:
        assert body["duration"] == pytest.approx(file.getnframes() / file.getframerate(), abs=0.1)
    assert 0 <= body["segments"][0]["start"] < body["segments"][-1]["end"] <= body["duration"] + 0.1


def test_silence_has_no_text(client: httpx.Client) -> None:
    file = io.BytesIO()
    soundfile.write(file, [0.0] * 32_000, 16_000, format="WAV")
    assert transcribe(client, file.getvalue()).json()["text"] == ""


def test_voice_activity_is_counted_in_samples_of_the_recording(client: httpx.Client, spoken: bytes) -> None:
    body = {"model": "vad", "request": {"audio_base64": base64.b64encode(spoken).decode()}}
    answer = client.post("/v1/tasks/run", json=body).json()
    with wave.open(io.BytesIO(spoken)) as file:
        frames = file.getnframes()
    first, last = answer["segments"][0], answer["segments"][-1]
    assert 0 <= first["start_sample"] < last["end_sample"] <= frames
    assert last["end_sample"] - first["start_sample"] > frames / 2


def test_unloading_and_the_next_request(client: httpx.Client, spoken: bytes) -> None:
    transcribe(client, spoken)
    answer = client.post("/v1/tasks/unload_models", json={"model_ids": ["moonshine", "nope"]}).json()
    assert answer == {"unloaded": ["moonshine"], "not_found": ["nope"]}
    assert not client.get("/v1/models/moonshine").json()["loaded"]
    assert words_of(transcribe(client, spoken).json()["text"]) >= WORDS
