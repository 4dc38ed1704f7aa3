"""Recordings of browsers and telephones, good and bad, built here; and AAC as a reply."""

import io
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import av
import numpy as np
import pytest

from audiocpp.engines.codec import Codec
from audiocpp.engines.errors import InvalidInput, TooLarge, UnsupportedMedia
from audiocpp.engines.family import Data, LoadContext
from audiocpp.engines.ffmpeg import INSTALL_COMMAND
from audiocpp.engines.inline import run_inline
from audiocpp.engines.media_source import BLOCK_S
from audiocpp.engines.tasks import AudioChunk, AudioFormat, AudioInfo, EncodedData, TaskRequest

CODEC = Codec.load(LoadContext(files={}, open_graph=lambda path, options: pytest.fail("the codec has no graphs")))
RATE = 16000
TONE_HZ = 440.0


def tone(seconds: float, rate: int) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * TONE_HZ * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def recording(
    container: str, codec: str, samples: np.ndarray, rate: int, *, channels: int = 1, video: bool = False
) -> bytes:
    """A file of `samples` on every channel; with `video`, of pictures too."""
    file = io.BytesIO()
    layout = {1: "mono", 2: "stereo"}[channels]
    with av.open(file, "w", format=container) as media:
        pictures = _picture_track(media) if video else None
        track = media.add_stream(codec, rate=rate, layout=layout)
        if pictures is not None:
            _add_pictures(media, pictures)
        frame_size = track.frame_size or 1024
        resampler = av.AudioResampler(format=track.format, layout=layout, rate=rate, frame_size=frame_size)
        for start in range(0, len(samples), rate):
            second = np.tile(samples[start : start + rate], (channels, 1))
            frame = av.AudioFrame.from_ndarray(second, format="fltp", layout=layout)
            frame.sample_rate = rate
            for part in resampler.resample(frame):
                media.mux(track.encode(part))
        media.start_encoding()
        for part in resampler.resample(None) if len(samples) else ():
            media.mux(track.encode(part))
        media.mux(track.encode(None))
    return file.getvalue()


def _picture_track(media: Any) -> Any:
    track = media.add_stream("mpeg4", rate=10)
    track.width = track.height = 32
    return track


def _add_pictures(media: Any, track: Any) -> None:
    for _ in range(3):
        media.mux(track.encode(av.VideoFrame(32, 32, "yuv420p")))
    media.mux(track.encode(None))


def pictures_only() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as media:
        _add_pictures(media, _picture_track(media))
    return file.getvalue()


def events(data: bytes, *, max_seconds: float = 100.0) -> Iterator[Any]:
    request = TaskRequest(task="decode", options={"sample_rate": RATE, "max_seconds": max_seconds})
    yield from run_inline(CODEC.run(request), [Data(data)])


def decode(data: bytes, *, max_seconds: float = 100.0) -> tuple[AudioInfo, np.ndarray]:
    info, *chunks = events(data, max_seconds=max_seconds)
    assert isinstance(info, AudioInfo)
    assert all(isinstance(chunk, AudioChunk) for chunk in chunks)
    return info, np.frombuffer(b"".join(chunk.pcm for chunk in chunks), "<f4")


def loudest_hz(samples: np.ndarray) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(samples * np.hanning(len(samples))))) * RATE / len(samples))


KINDS = [
    ("webm", "libopus", 48000, "WebM or Matroska", "opus"),
    ("matroska", "pcm_s16le", 22050, "WebM or Matroska", "pcm_s16le"),
    ("matroska", "libmp3lame", 44100, "WebM or Matroska", "mp3"),
    ("mp4", "aac", 44100, "MP4 or M4A", "aac"),
    ("ipod", "aac", 16000, "MP4 or M4A", "aac"),
    ("ipod", "alac", 44100, "MP4 or M4A", "alac"),
    ("adts", "aac", 24000, "AAC (ADTS)", "aac"),
]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("container", "codec", "rate", "name", "decoder"), KINDS)
def test_what_browsers_and_telephones_record_is_heard(
    container: str, codec: str, rate: int, name: str, decoder: str, channels: int
) -> None:
    data = recording(container, codec, tone(2.0, rate), rate, channels=channels)
    info, samples = decode(data)
    assert (info.container, info.sample_rate, info.channels) == (name, rate, channels)
    assert info.codec.startswith(decoder)
    assert len(samples) / RATE == pytest.approx(2.0, abs=0.15)
    assert loudest_hz(samples) == pytest.approx(TONE_HZ, abs=2.0)
    assert np.abs(samples[4000:-4000]).max() == pytest.approx(0.5, abs=0.05)


def test_sound_beside_pictures_is_heard() -> None:
    _, samples = decode(recording("matroska", "libopus", tone(1.0, 48000), 48000, video=True))
    assert loudest_hz(samples) == pytest.approx(TONE_HZ, abs=2.0)


def test_pictures_without_sound_are_no_recording() -> None:
    with pytest.raises(InvalidInput, match="it has no audio track"):
        decode(pictures_only())


def test_a_codec_that_is_not_meant_for_speech_is_named() -> None:
    with pytest.raises(UnsupportedMedia, match="WebM or Matroska with the codec ac3 cannot be decoded here"):
        decode(recording("matroska", "ac3", tone(1.0, 48000), 48000))


@pytest.mark.parametrize("length", [110, 300, None])
def test_a_recording_that_ended_before_it_began_is_empty(length: int | None) -> None:
    header = recording("webm", "libopus", np.zeros(0, np.float32), 48000)
    info, samples = decode(header[:length])
    assert (samples.size, info.duration_s) == (0, 0.0)


@pytest.mark.parametrize(("container", "codec"), [("webm", "libopus"), ("adts", "aac")])
def test_a_recording_that_is_cut_off_is_heard_to_there(container: str, codec: str) -> None:
    data = recording(container, codec, tone(8.0, 48000), 48000)
    _, samples = decode(data[: len(data) // 2])
    assert 2.0 < len(samples) / RATE < 6.0


@pytest.mark.parametrize(
    "data",
    [
        b"\x1a\x45\xdf\xa3" + bytes(500),
        b"\x1a\x45\xdf\xa3" + b"no recording " * 50,
        recording("webm", "libopus", np.zeros(0, np.float32), 48000)[:300] + bytes(5000),
        b"\0\0\0\x20ftypM4A " + bytes(500),
        b"\xff\xf1\x50\x80" + bytes(500),
        recording("ipod", "aac", tone(2.0, 48000), 48000)[:6000],
        b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1/a.ts\n",
        b"ffconcat version 1.0\nfile '/etc/hostname'\n",
    ],
    ids=[
        "WebM of zeros",
        "WebM of text",
        "WebM of a header and zeros",
        "MP4 of zeros",
        "AAC of zeros",
        "M4A without its index",
        "playlist",
        "list",
    ],
)
def test_what_only_begins_like_a_recording_is_the_clients_mistake(data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^file: no readable audio \(.*\); accepted are WAV, .*WebM"):
        decode(data)


def test_a_long_recording_in_a_small_file_ends_at_the_limit() -> None:
    data = recording("matroska", "libopus", np.zeros(600 * 48000, np.float32), 48000)
    assert len(data) < 1 << 20
    heard_s: list[float] = []

    chunks = (event for event in events(data, max_seconds=60.0) if isinstance(event, AudioChunk))
    with pytest.raises(TooLarge, match="max_audio_seconds"):
        heard_s.extend(len(chunk.pcm) / 4 / RATE for chunk in chunks)
    assert max(heard_s) <= BLOCK_S + 1
    assert sum(heard_s) <= 60.0


@pytest.mark.parametrize(("container", "codec"), [("webm", "libopus"), ("ipod", "aac"), ("adts", "aac")])
def test_a_damaged_file_is_heard_or_refused_and_nothing_else(container: str, codec: str) -> None:
    whole = recording(container, codec, tone(1.0, 48000), 48000)
    chance = random.Random(7)
    outcomes = set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 3, 30])):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        started = time.monotonic()
        try:
            outcomes.add(decode(bytes(data), max_seconds=20.0)[1].size > 0)
        except (InvalidInput, UnsupportedMedia, TooLarge) as error:
            outcomes.add(type(error))
        assert time.monotonic() - started < 5
    assert True in outcomes


@pytest.mark.parametrize(("container", "codec", "rate", "name", "decoder"), KINDS[::3])
def test_without_the_extra_the_container_is_named_and_the_command_that_adds_it(
    monkeypatch: pytest.MonkeyPatch, container: str, codec: str, rate: int, name: str, decoder: str
) -> None:
    data = recording(container, codec, tone(0.5, rate), rate)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(UnsupportedMedia) as caught:
        decode(data)
    message = caught.value.message
    assert message.startswith(f"file: {name} cannot be decoded here; accepted are WAV, FLAC")
    assert message.endswith(f"; for this one: {INSTALL_COMMAND}")
    assert "WebM, MP4" not in message


def aac(samples: np.ndarray, rate: int, *, channels: int = 1, streamed: bool = False) -> list[bytes]:
    request = TaskRequest(
        task="encode",
        audio=AudioFormat(sample_rate=rate, channels=channels),
        options={"format": "aac", "streamed": streamed},
    )
    pcm = np.tile(samples[:, None], (1, channels)).astype("<f4").tobytes()
    step = rate // 20 * 4 * channels
    made = list(run_inline(CODEC.run(request), [Data(pcm[at : at + step]) for at in range(0, len(pcm), step)]))
    assert all(isinstance(event, EncodedData) and event.at is None for event in made)
    return [event.data for event in made]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("rate", "made"), [(22050, 22050), (24000, 24000), (16000, 16000), (10000, 11025)])
def test_aac_is_heard_as_what_was_encoded(rate: int, made: int, channels: int) -> None:
    info, samples = decode(b"".join(aac(tone(2.0, rate), rate, channels=channels)))
    assert (info.sample_rate, info.channels, info.codec) == (made, channels, "aac")
    assert len(samples) / RATE == pytest.approx(2.0, abs=0.25)
    assert loudest_hz(samples) == pytest.approx(TONE_HZ, abs=2.0)


def test_aac_leaves_while_it_is_made() -> None:
    pieces = aac(tone(4.0, 24000), 24000, streamed=True)
    assert len(pieces) > 40
    assert all(piece[:2] == b"\xff\xf1" for piece in pieces if piece)


def test_aac_of_nothing_is_nothing() -> None:
    assert len(b"".join(aac(np.zeros(0, np.float32), 24000))) < 100


def test_aac_has_one_or_two_channels() -> None:
    with pytest.raises(InvalidInput, match="aac cannot have 3 channels at 24000 Hz"):
        aac(tone(0.1, 24000), 24000, channels=3)


def test_without_the_extra_aac_is_refused_with_the_command_that_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(InvalidInput, match=r"audiocppd\[ffmpeg\]") as caught:
        aac(tone(0.1, 24000), 24000)
    assert caught.value.param == "response_format"
