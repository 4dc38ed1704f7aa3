"""Speech in every format, whole and streamed, over HTTP on a real voice."""

import io
import struct
import time
from collections.abc import Iterator
from typing import Any

import av
import httpx
import pytest
from tests.integration.daemon_process import DaemonProcess

from audiocpp.daemon.http.speech_request import CONTENT_TYPES
from audiocpp.engines.sndfile_source import SequentialFile

pytestmark = pytest.mark.integration

VOICE_RATE = 22050
THREE_SENTENCES = "It was the best of times. It was the worst of times. We had everything before us."
HEAD = {"wav": b"RIFF", "mp3": b"\xff", "flac": b"fLaC", "opus": b"OggS", "aac": b"\xff\xf1"}
LONG_TEXT = "The period was so far like the present period, that some insisted on its being received. " * 6
HEADER_BYTES = 1000
"""No header is longer."""


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


def speak(client: httpx.Client, **fields: Any) -> httpx.Response:
    response = client.post("/v1/audio/speech", json={"model": "piper", "input": THREE_SENTENCES, **fields})
    assert response.status_code == 200, response.text
    return response


def transcript(client: httpx.Client, data: bytes) -> set[str]:
    response = client.post("/v1/audio/transcriptions", files={"file": ("a", data)}, data={"model": "moonshine"})
    assert response.status_code == 200, response.text
    return {word.strip(".,!?").lower() for word in response.json()["text"].split()}


def rate_and_channels(data: bytes) -> tuple[int, int]:
    if data.startswith(HEAD["aac"]):
        with av.open(io.BytesIO(data)) as media:
            return media.streams.audio[0].rate, media.streams.audio[0].channels
    with SequentialFile(io.BytesIO(data)) as file:
        return file.samplerate, file.channels


@pytest.mark.parametrize("stream", [{}, {"stream_format": "audio"}], ids=["whole", "streamed"])
@pytest.mark.parametrize("fmt", HEAD)
def test_every_format_is_understood(client: httpx.Client, fmt: str, stream: dict[str, str]) -> None:
    response = speak(client, response_format=fmt, **stream)
    assert response.headers["Content-Type"] == CONTENT_TYPES[fmt]
    assert ("Content-Length" in response.headers) == (not stream)
    assert response.content.startswith(HEAD[fmt])
    assert rate_and_channels(response.content) == (24000 if fmt == "opus" else VOICE_RATE, 1)
    assert transcript(client, response.content) >= {"best", "worst", "times", "everything"}


def test_a_streamed_wav_has_one_header_and_then_pcm_only(client: httpx.Client) -> None:
    data = speak(client, response_format="wav", stream_format="audio").content
    assert struct.unpack_from("<4sI4s4sIHHIIHH4sI", data) == (
        *(b"RIFF", 0xFFFFFFFF, b"WAVE", b"fmt ", 16, 1, 1, VOICE_RATE, 2 * VOICE_RATE, 2, 16),
        *(b"data", 0xFFFFFFFF),
    )
    assert len(data) % 2 == 0
    assert b"RIFF" not in data[44:]


@pytest.mark.parametrize("fmt", ["wav", "opus"])
def test_the_first_audio_does_not_wait_for_the_last(client: httpx.Client, fmt: str) -> None:
    body = {"model": "piper", "input": LONG_TEXT, "stream_format": "audio", "response_format": fmt}
    arrivals_s, received = [], 0
    with client.stream("POST", "/v1/audio/speech", json=body) as response:
        started_s = time.monotonic()
        for piece in response.iter_raw():
            received += len(piece)
            if received > HEADER_BYTES:
                arrivals_s.append(time.monotonic() - started_s)
    assert arrivals_s[0] < arrivals_s[-1] / 2
