"""Media files of every kind, good and bad, built here."""

import io
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from audiocpp.engines.codec import Codec
from audiocpp.engines.errors import InvalidInput, TooLarge, UnsupportedMedia
from audiocpp.engines.family import Data, LoadContext
from audiocpp.engines.inline import run_inline
from audiocpp.engines.tasks import AudioChunk, AudioInfo, TaskRequest

CODEC = Codec.load(LoadContext(files={}, open_graph=lambda path, options: pytest.fail("the codec has no graphs")))
RATE = 16000


def tone(seconds: float = 0.5, *, rate: int = RATE, hz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def file_of(samples: np.ndarray, rate: int, *, container: str = "WAV", subtype: str | None = None) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=container, subtype=subtype)
    return out.getvalue()


def decode(data: bytes, *, rate: int = RATE, max_seconds: float = 100.0) -> tuple[AudioInfo, np.ndarray]:
    request = TaskRequest(task="decode", options={"sample_rate": rate, "max_seconds": max_seconds})
    info, *chunks = run_inline(CODEC.run(request), [Data(data[:7]), Data(data[7:])])
    assert isinstance(info, AudioInfo)
    return info, np.frombuffer(b"".join(pcm_of(chunks)), "<f4")


def pcm_of(events: list[object]) -> Iterator[bytes]:
    for event in events:
        assert isinstance(event, AudioChunk)
        yield event.pcm


def loudest_hz(samples: np.ndarray, rate: int = RATE) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(samples * np.hanning(len(samples))))) * rate / len(samples))


@pytest.mark.parametrize(
    ("container", "subtype"),
    [
        ("WAV", "PCM_U8"),
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "PCM_32"),
        ("WAV", "FLOAT"),
        ("WAV", "ULAW"),
        ("WAVEX", "FLOAT"),
        ("RF64", "PCM_16"),
        ("W64", "PCM_16"),
        ("FLAC", "PCM_16"),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", "MPEG_LAYER_III"),
        ("AIFF", "PCM_16"),
        ("AU", "PCM_16"),
        ("CAF", "ALAC_16"),
    ],
)
def test_containers_are_recognised_by_their_bytes(container: str, subtype: str) -> None:
    info, samples = decode(file_of(tone(1.0, rate=48000), 48000, container=container, subtype=subtype))
    assert info.sample_rate == 48000
    assert len(samples) / RATE == pytest.approx(1.0, abs=0.06)
    assert loudest_hz(samples) == pytest.approx(440.0, abs=3.0)


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 96000])
def test_any_rate_becomes_the_asked_rate(rate: int) -> None:
    info, samples = decode(file_of(tone(1.0, rate=rate), rate))
    assert info.sample_rate == rate
    assert len(samples) == pytest.approx(RATE, abs=2)
    assert loudest_hz(samples) == pytest.approx(440.0, abs=3.0)


def test_channels_are_mixed_to_their_mean() -> None:
    stereo = np.stack([tone(), np.zeros_like(tone())], axis=1)
    info, samples = decode(file_of(stereo, RATE, subtype="FLOAT"))
    assert info.channels == 2
    np.testing.assert_allclose(samples, tone() / 2, atol=1e-6)


def with_chunk_before_format(data: bytes) -> bytes:
    junk = b"JUNK" + struct.pack("<I", 28) + bytes(28)
    return data[:4] + struct.pack("<I", len(data) - 8 + len(junk)) + data[8:12] + junk + data[12:]


def test_the_format_chunk_need_not_come_first() -> None:
    plain = file_of(tone(), RATE)
    np.testing.assert_array_equal(decode(with_chunk_before_format(plain))[1], decode(plain)[1])


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF])
def test_sizes_that_a_streaming_writer_left_open_mean_until_the_end(size: int) -> None:
    data = bytearray(file_of(tone(), RATE))
    struct.pack_into("<I", data, 4, size)
    struct.pack_into("<I", data, data.index(b"data") + 4, size)
    _info, samples = decode(bytes(data))
    assert len(samples) == len(tone())


def test_a_flac_file_that_does_not_know_its_length_is_read_to_its_end() -> None:
    data = bytearray(file_of(tone(3.0), RATE, container="FLAC"))
    data[21:26] = bytes([data[21] & 0xF0, 0, 0, 0, 0])  # the 36 bits of the total in STREAMINFO
    info, samples = decode(bytes(data))
    assert info.duration_s is None
    np.testing.assert_allclose(samples, tone(3.0), atol=1e-4)


def test_a_header_without_samples_is_empty_audio() -> None:
    info, samples = decode(file_of(np.zeros(0, np.float32), RATE))
    assert samples.size == 0
    assert info.duration_s == 0.0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"hello, I am a text file and no audio at all",
        b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(64),
        file_of(tone(), RATE)[:30],
    ],
    ids=["empty", "one byte", "text", "JPEG", "WAV cut inside its format"],
)
def test_what_is_no_audio_is_the_clients_mistake_and_names_what_is_accepted(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="accepted are WAV, FLAC") as caught:
        decode(data)
    assert caught.value.param == "file"


@pytest.mark.parametrize(
    ("head", "container"),
    [
        (b"\x30\x26\xb2\x75", "WMA"),
        (b"#!AMR\n", "AMR"),
        (b"RIFF\x70\0\0\0WAVEJUNK\0\0\0\0fmt \x10\0\0\0\x61\1\1\0", "WAV with the codec 0x0161"),
    ],
)
def test_known_containers_and_codecs_that_cannot_be_decoded_are_named(head: bytes, container: str) -> None:
    with pytest.raises(UnsupportedMedia, match=container) as caught:
        decode(head + bytes(100))
    assert caught.value.param == "file"


def test_audio_longer_than_allowed_ends_with_the_limit() -> None:
    with pytest.raises(TooLarge, match="max_audio_seconds"):
        decode(file_of(tone(3.0), RATE), max_seconds=2.0)


def test_not_a_number_becomes_silence() -> None:
    samples = tone()
    samples[100:110] = np.nan
    _, decoded = decode(file_of(samples, RATE, subtype="FLOAT"))
    assert np.isfinite(decoded).all()


def test_a_file_is_read_from_its_path_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "speech.txt"
    path.write_bytes(file_of(tone(), RATE))
    request = TaskRequest(task="decode", options={"path": str(path), "sample_rate": RATE, "max_seconds": 10.0})
    info, *chunks = run_inline(CODEC.run(request))
    assert isinstance(info, AudioInfo)
    assert sum(map(len, pcm_of(chunks))) == 4 * len(tone())


def test_a_path_that_cannot_be_read_is_the_clients_mistake(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "sample_rate": RATE, "max_seconds": 10.0}
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory") as caught:
        list(run_inline(CODEC.run(TaskRequest(task="decode", options=options))))
    assert caught.value.param == "file"


@pytest.mark.parametrize("rate", [1, 7, 999, 384_001, 2_000_000_000])
def test_rates_that_no_recording_has_are_refused(rate: int) -> None:
    with pytest.raises(InvalidInput, match=rf"sample rate {rate} is outside 1000\.\.384000 Hz") as caught:
        decode(file_of(tone(0.1), rate))
    assert caught.value.param == "file"


@pytest.mark.parametrize("rate", [1_000, 384_000])
def test_the_lowest_and_the_highest_rate_are_decoded(rate: int) -> None:
    _, samples = decode(file_of(tone(1.0, rate=rate, hz=100.0), rate))
    assert loudest_hz(samples) == pytest.approx(100.0, abs=2.0)


def test_many_channels_at_a_high_rate_stay_within_the_memory_of_a_block() -> None:
    data = file_of(np.full((3_000, 1024), 0.25, np.float32), 384_000, subtype="PCM_U8")
    tracemalloc.start()
    try:
        _, samples = decode(data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(samples) == 125
    assert peak_bytes < 64 << 20
