"""Recordings that other servers of this kind refused or misread, as people reported it (`tests/data/reports.json`)."""

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import pytest
import soundfile
import soxr
from tests.integration.daemon_process import DaemonProcess, eventually, running_daemon
from tests.integration.recordings import PCM16_MONO_16K, Chunk, chunks_of, of_unknown_length, riff

from audiocpp.engines.ffmpeg import INSTALL_COMMAND

pytestmark = pytest.mark.integration

URL = "/v1/audio/transcriptions"
SENTENCE = "It was the best of times, it was the worst of times."
CHUNKS: dict[str, Chunk] = {
    "JUNK": (b"JUNK", bytes(27)),
    "bext": (b"bext", bytes(602)),
    "LIST": (b"LIST", b"INFOISFT" + struct.pack("<I", 6) + b"Lavf60"),
    "fact": (b"fact", struct.pack("<I", 1)),
    "iXML": (b"iXML", b"<BWFXML><NOTE>odd</NOTE></BWFXML>"),
}
GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
EBML = bytes.fromhex("1a45dfa39f4286810142f7810142f2810442f381084282847765626d42878104428581021853806701ffffffffffffff")
"""The head of what a browser records: an EBML header of the type `webm`, and a segment of unknown length."""


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


@pytest.fixture(scope="module")
def daemon_without_ffmpeg(tmp_path_factory: pytest.TempPathFactory, models_root: Path) -> Iterator[DaemonProcess]:
    """A daemon that was installed without the `ffmpeg` extra."""
    folder = tmp_path_factory.mktemp("without")
    hidden = folder / "sitecustomize.py"
    hidden.write_text("import sys; sys.modules['av'] = None")
    with running_daemon(folder, models_root, environ={"PYTHONPATH": str(folder)}) as running:
        yield running


@pytest.fixture(scope="module")
def spoken(client: httpx.Client) -> bytes:
    """A plain WAV file of `SENTENCE`."""
    return client.post("/v1/audio/speech", json={"model": "piper", "input": SENTENCE}).content


@pytest.fixture(scope="module")
def plain(client: httpx.Client, spoken: bytes) -> dict[str, Any]:
    """The transcript of the plain file."""
    transcript = verbose(client, spoken)
    assert "worst of times" in transcript["text"].lower()
    return transcript


def post(
    client: httpx.Client, data: bytes, name: str = "speech", kind: str = "audio/wav", **fields: str
) -> httpx.Response:
    form = {"model": "moonshine", **fields}
    return client.post(URL, files={"file": (name, data, kind)}, data=form)


def verbose(client: httpx.Client, data: bytes) -> dict[str, Any]:
    response = post(client, data, response_format="verbose_json")
    assert response.status_code == 200, response.text
    return dict(response.json())


def error_of(response: httpx.Response, *statuses: int) -> dict[str, Any]:
    assert response.status_code in statuses, response.text
    return dict(response.json()["error"])


@pytest.mark.parametrize("place", ["before the format", "after the format", "after the samples"])
@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_of_another_kind_is_skipped(
    client: httpx.Client, spoken: bytes, plain: dict[str, Any], name: str, place: str
) -> None:
    """R01"""
    chunks = chunks_of(spoken)
    chunks.insert(["before the format", "after the format", "after the samples"].index(place), CHUNKS[name])
    transcript = verbose(client, riff(chunks))
    assert (transcript["text"], transcript["duration"]) == (plain["text"], plain["duration"])


def test_an_extensible_header_is_read_by_its_sub_format(
    client: httpx.Client, spoken: bytes, plain: dict[str, Any]
) -> None:
    """R04"""
    samples, rate_hz = soundfile.read(io.BytesIO(spoken), dtype="float32")
    pcm = soxr.resample(samples, rate_hz, 96_000).astype("<f4").tobytes()
    form = struct.pack("<HHIIHHHHIH", 0xFFFE, 1, 96_000, 384_000, 4, 32, 22, 32, 4, 3) + GUID_TAIL
    transcript = verbose(client, riff([(b"fmt ", form), (b"data", pcm)]))
    assert "worst of times" in transcript["text"].lower()
    assert transcript["duration"] == pytest.approx(plain["duration"], abs=0.01)


def test_a_sub_format_that_cannot_be_decoded_is_named(client: httpx.Client) -> None:
    """R04"""
    form = struct.pack("<HHIIHHHHIH", 0xFFFE, 1, 48_000, 24_000, 1, 4, 22, 4, 4, 0x0160) + GUID_TAIL
    error = error_of(post(client, riff([(b"fmt ", form), (b"data", bytes(4096))])), 415)
    assert error["param"] == "file"
    assert "0x0160" in error["message"]


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF])
def test_a_file_of_unknown_length_goes_to_its_end(
    client: httpx.Client, spoken: bytes, plain: dict[str, Any], size: int
) -> None:
    """R05"""
    transcript = verbose(client, of_unknown_length(spoken, size=size))
    assert (transcript["text"], transcript["duration"]) == (plain["text"], plain["duration"])


def test_a_streamed_wav_of_this_server_can_be_transcribed(client: httpx.Client) -> None:
    """R05"""
    body = {"model": "piper", "input": SENTENCE, "response_format": "wav", "stream_format": "audio"}
    streamed = client.post("/v1/audio/speech", json=body).content
    transcript = verbose(client, streamed)
    assert "worst of times" in transcript["text"].lower()
    assert transcript["duration"] == pytest.approx((len(streamed) - 44) / 2 / 22_050, abs=0.01)


@pytest.mark.parametrize(("rate_hz", "channels"), [(8000, 1), (11_025, 1), (22_050, 1), (44_100, 1), (48_000, 2)])
def test_times_are_those_of_the_original_at_any_rate(
    client: httpx.Client, spoken: bytes, plain: dict[str, Any], rate_hz: int, channels: int
) -> None:
    """R07"""
    samples, original_hz = soundfile.read(io.BytesIO(spoken), dtype="float32")
    mono = soxr.resample(samples, original_hz, rate_hz)
    file = io.BytesIO()
    soundfile.write(file, mono[:, None].repeat(channels, axis=1), rate_hz, format="WAV", subtype="PCM_16")
    transcript = verbose(client, file.getvalue())
    assert "worst of times" in transcript["text"].lower()
    assert transcript["duration"] == pytest.approx(plain["duration"], abs=0.01)
    first, last = transcript["segments"][0], transcript["segments"][-1]
    assert first["start"] == pytest.approx(plain["segments"][0]["start"], abs=0.2)
    assert last["end"] == pytest.approx(plain["segments"][-1]["end"], abs=0.2)


def browser_recording(wav: bytes) -> bytes:
    """What a browser's MediaRecorder makes of it: Opus in WebM, whose header does not say how long it is."""
    samples, rate_hz = soundfile.read(io.BytesIO(wav), dtype="float32")
    file = io.BytesIO()
    with av.open(file, "w", format="webm", options={"live": "1"}) as media:
        track = media.add_stream("libopus", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(soxr.resample(samples, rate_hz, 48_000)[None, :], "fltp", "mono")
        frame.sample_rate = 48_000
        for part in av.AudioResampler(format=track.format, frame_size=track.frame_size).resample(frame):
            media.mux(track.encode(part))
        media.mux(track.encode(None))
    return file.getvalue()


@pytest.mark.parametrize("name", ["blob", "audio.webm"])
def test_a_browser_recording_is_heard(client: httpx.Client, spoken: bytes, plain: dict[str, Any], name: str) -> None:
    """R09"""
    response = post(client, browser_recording(spoken), name, "audio/webm;codecs=opus", response_format="verbose_json")
    assert response.status_code == 200, response.text
    assert "worst of times" in response.json()["text"].lower()
    assert response.json()["duration"] == pytest.approx(plain["duration"], abs=0.1)


def test_a_browser_recording_that_ended_before_it_began_is_empty(client: httpx.Client) -> None:
    """R09, R13"""
    response = post(client, EBML.ljust(110, b"\xec"), "blob", "audio/webm;codecs=opus")
    assert (response.status_code, response.json()["text"]) == (200, "")


@pytest.mark.parametrize("name", ["blob", "audio.webm"])
@pytest.mark.parametrize("length", [110, 3 << 20], ids=["header only", "spooled"])
def test_a_browser_recording_is_refused_by_its_container_where_it_cannot_be_decoded(
    daemon_without_ffmpeg: DaemonProcess, name: str, length: int
) -> None:
    """R09, R13"""
    with daemon_without_ffmpeg.client() as client:
        error = error_of(post(client, EBML.ljust(length, b"\xec"), name, "audio/webm;codecs=opus"), 415)
    assert error["param"] == "file"
    assert all(word in error["message"] for word in ("WebM", "WAV", "FLAC", INSTALL_COMMAND))
    eventually(lambda: not daemon_without_ffmpeg.footprint().uploads, limit_s=1.0, what="the upload is left")


@pytest.mark.parametrize("header", ["", "Content-Type: application/octet-stream\r\n"], ids=["no type", "octet-stream"])
def test_neither_name_nor_type_is_needed(
    client: httpx.Client, spoken: bytes, plain: dict[str, Any], header: str
) -> None:
    """R11"""
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="speech"\r\n{header}\r\n'
    body = head.encode() + spoken + b"\r\n--x--\r\n"
    response = client.post(URL, content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert response.status_code == 200, response.text
    assert response.json()["text"] == plain["text"]


@pytest.mark.parametrize(("fmt", "answer"), [("text", "\n"), ("srt", ""), ("vtt", "WEBVTT\n")])
def test_a_recording_without_samples_is_empty(client: httpx.Client, fmt: str, answer: str) -> None:
    """R13"""
    response = post(client, riff([PCM16_MONO_16K, (b"data", b"")]), response_format=fmt)
    assert response.status_code == 200
    assert response.text == answer


def test_a_recording_without_samples_has_no_segments(client: httpx.Client) -> None:
    """R13"""
    transcript = verbose(client, riff([PCM16_MONO_16K, (b"data", b"")]))
    assert (transcript["text"], transcript["segments"], transcript["duration"]) == ("", [], 0.0)


NOT_AUDIO = {
    "nothing": b"",
    "a text": b"hello",
    "a JPEG": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(500),
    "a WAV cut in its format": riff([PCM16_MONO_16K])[:26],
}


@pytest.mark.parametrize("name", ["blob", "audio.webm"])
@pytest.mark.parametrize("what", NOT_AUDIO)
def test_what_is_no_audio_is_the_clients_mistake(
    daemon: DaemonProcess, client: httpx.Client, what: str, name: str
) -> None:
    """R13, R15"""
    response = post(client, NOT_AUDIO[what], name, "audio/webm")
    error = error_of(response, 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", "file")
    assert "\n" not in error["message"]
    request_id = response.headers["X-Request-Id"]
    records = eventually(lambda: [record for record in daemon.log if record.get("request_id") == request_id])
    assert {record["level"] for record in records} == {"info"}
    assert not any("Traceback" in str(record) for record in records)
