"""PCM of every format to float32 mono: exact, and the same however the bytes are split."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audiocpp.engines import wire
from audiocpp.engines.audio import FrameCutter, PcmInput, SampleWindow, levels_db
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.tasks import AudioFormat


def read(data: bytes, *, sample_rate: int = 16_000, **audio) -> np.ndarray:
    pcm = PcmInput(AudioFormat(sample_rate=sample_rate, **audio), 16_000)
    return np.concatenate((pcm.push(data), pcm.finish()))


@pytest.mark.parametrize(
    ("code", "value"), [(0x00, -32124), (0x80, 32124), (0xFF, 0), (0x7F, 0), (0xFE, 8), (0x0F, -16764), (0xEF, 132)]
)
def test_mu_law_follows_g711(code: int, value: int) -> None:
    assert read(bytes([code]), encoding="mulaw").tolist() == [value / 32768]


@pytest.mark.parametrize(
    ("code", "value"), [(0xD5, 8), (0x55, -8), (0xAA, 32256), (0x2A, -32256), (0xD4, 24), (0xC5, 264), (0xF5, 528)]
)
def test_a_law_follows_g711(code: int, value: int) -> None:
    assert read(bytes([code]), encoding="alaw").tolist() == [value / 32768]


def test_full_scale_of_16_bits_is_one() -> None:
    data = np.array([-32768, 0, 16384], "<i2").tobytes()
    assert read(data, encoding="s16le").tolist() == [-1.0, 0.0, 0.5]


def test_channels_are_averaged() -> None:
    data = np.array([0.5, -0.25, 0.75, 0.25], "<f4").tobytes()
    assert read(data, channels=2).tolist() == [0.125, 0.5]


def test_float_samples_that_are_no_numbers_are_silence_and_loud_ones_are_limited() -> None:
    data = np.array([np.nan, np.inf, -np.inf, 3e30, -7.0, 0.5], "<f4").tobytes()
    assert read(data).tolist() == [0.0, 0.0, 0.0, 1.0, -1.0, 0.5]


def test_a_damaged_sample_does_not_spread_through_the_resampler() -> None:
    samples = np.zeros(4800, "<f4")
    samples[2400] = np.nan
    assert read(samples.tobytes(), sample_rate=48_000).tolist() == [0.0] * 1600


def test_half_a_sample_is_carried_over_and_dropped_at_the_end() -> None:
    pcm = PcmInput(AudioFormat(sample_rate=16_000, encoding="s16le"), 16_000)
    assert pcm.push(b"\x00\x40\x00").tolist() == [0.5]
    assert pcm.push(b"").size == 0
    assert pcm.push(b"\x20\xff").tolist() == [0.25]
    assert pcm.finish().size == 0
    assert pcm.frames == 2


@settings(max_examples=60, deadline=None)
@given(
    data=st.binary(max_size=6000),
    cuts=st.lists(st.integers(0, 6000), max_size=8),
    sample_rate=st.sampled_from([8000, 11_025, 16_000, 44_100, 48_000]),
    encoding=st.sampled_from(["f32le", "s16le", "mulaw", "alaw"]),
    channels=st.integers(1, 3),
)
def test_the_split_of_the_bytes_does_not_change_the_samples(data, cuts, sample_rate, encoding, channels) -> None:
    audio = AudioFormat(sample_rate=sample_rate, encoding=encoding, channels=channels)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pcm = PcmInput(audio, 16_000)
    pieces = [pcm.push(data[start:end]) for start, end in pairwise(bounds)]
    samples = np.concatenate([*pieces, pcm.finish()])
    assert pcm.frames == len(data) // audio.frame_bytes
    np.testing.assert_array_equal(samples, read(data, sample_rate=sample_rate, encoding=encoding, channels=channels))


@pytest.mark.parametrize("sample_rate", [1000, 8000, 22_050, 44_100, 96_000, 384_000])
def test_a_resampled_tone_keeps_its_length_and_place(sample_rate: int) -> None:
    time_s = np.arange(sample_rate) / sample_rate
    tone = (0.5 * np.sin(2 * np.pi * 200 * time_s)).astype("<f4")
    samples = read(tone.tobytes(), sample_rate=sample_rate)
    assert abs(len(samples) - 16_000) <= 1
    expected = 0.5 * np.sin(2 * np.pi * 200 * np.arange(len(samples)) / 16_000)
    np.testing.assert_allclose(samples[2000:-2000], expected[2000:-2000], atol=0.01)


@pytest.mark.parametrize(
    ("audio", "param"),
    [
        (AudioFormat(sample_rate=999), "sample_rate"),
        (AudioFormat(sample_rate=384_001), "sample_rate"),
        (AudioFormat(sample_rate=16_000, channels=0), "channels"),
        (AudioFormat(sample_rate=16_000, channels=17), "channels"),
    ],
)
def test_a_format_outside_the_range_is_refused_by_field(audio: AudioFormat, param: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        PcmInput(audio, 16_000)
    assert refusal.value.param == param


@given(st.lists(st.integers(0, 40), max_size=12))
def test_frames_hold_every_sample_once_in_order(sizes: list[int]) -> None:
    stream = np.arange(sum(sizes), dtype=np.float32)
    cutter, frames, at = FrameCutter(7), [], 0
    for size in sizes:
        frames.append(cutter.push(stream[at : at + size]))
        at += size
    assert cutter.waiting == len(stream) % 7
    whole = np.concatenate([*frames, cutter.finish()]) if frames else cutter.finish()
    assert whole.shape[1] == 7
    assert whole.reshape(-1)[: len(stream)].tolist() == stream.tolist()
    assert not whole.reshape(-1)[len(stream) :].any()


def test_a_window_is_addressed_from_the_start_of_the_stream() -> None:
    window = SampleWindow()
    window.push(np.arange(10, dtype=np.float32))
    window.forget(4)
    window.push(np.arange(10, 12, dtype=np.float32))
    assert (window.start, window.end) == (4, 12)
    assert window.cut(0, 6).tolist() == [4, 5]
    assert window.cut(9, 99).tolist() == [9, 10, 11]
    window.forget(3)
    assert window.start == 4


def test_levels_are_rms_in_dbfs() -> None:
    frames = np.stack((np.ones(4), np.full(4, 0.1), np.zeros(4))).astype(np.float32)
    np.testing.assert_allclose(levels_db(frames), [0, -20, -120], atol=1e-4)


@pytest.mark.parametrize(
    ("encoding", "channels", "sample_rate"),
    [("mulaw", 1, 1_000), ("mulaw", 1, 8_000), ("mulaw", 16, 384_000), ("s16le", 2, 44_100), ("f32le", 1, 48_000)],
)
def test_the_largest_piece_of_audio_does_not_hold_up_the_runs_beside_it(
    encoding: str, channels: int, sample_rate: int
) -> None:
    pcm = PcmInput(AudioFormat(sample_rate=sample_rate, encoding=encoding, channels=channels), 16_000)  # type: ignore[arg-type]
    taken = []
    for _ in range(5):
        started = time.thread_time()
        pcm.push(bytes(wire.MAX_PIECE_BYTES))
        taken.append(time.thread_time() - started)
    assert sorted(taken)[2] < 0.02
