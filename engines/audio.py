"""Caller's PCM to what a model computes on: float32 mono at the model's rate, whatever the format and the split.

Raw samples only; files are decoded elsewhere. Nothing here knows of models.
"""

import numpy as np
import numpy.typing as npt
import soxr

from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioFormat

MIN_SAMPLE_RATE_HZ = 1_000
MAX_SAMPLE_RATE_HZ = 384_000
MAX_CHANNELS = 16

_EMPTY: Float32 = np.zeros(0, np.float32)


class PcmInput:
    """A stream of PCM bytes as float32 mono at `sample_rate` Hz. The split of the input does not change the output.

    Channels are averaged. Float samples that are not finite become silence and all are limited to -1..1, so that one
    damaged sample costs itself and not the state of a resampler or a recurrent network. An incomplete sample at the
    very end is dropped.
    """

    def __init__(self, audio: AudioFormat, sample_rate: int) -> None:
        """Raises `InvalidInput` for a rate or channel count outside the accepted range."""
        _check(audio)
        self._audio = audio
        self._carried = b""
        self._frames = 0
        self._resampler: soxr.ResampleStream | None = None
        if audio.sample_rate != sample_rate:
            self._resampler = soxr.ResampleStream(audio.sample_rate, sample_rate, 1, dtype="float32")

    @property
    def frames(self) -> int:
        """Whole input frames (one sample of each channel) taken so far."""
        return self._frames

    @property
    def duration_s(self) -> float:
        """Exact length of the input so far, in the caller's own time."""
        return self._frames / self._audio.sample_rate

    def push(self, data: bytes) -> Float32:
        """The samples that `data` completes, (n,); a resampler holds back a few milliseconds."""
        data = self._carried + data if self._carried else data
        whole = len(data) - len(data) % self._audio.frame_bytes
        self._carried = data[whole:]
        mono = _decoded(memoryview(data)[:whole], self._audio)
        self._frames += len(mono)
        return self._resampled(mono, last=False)

    def finish(self) -> Float32:
        """What the resampler held back, (n,). Nothing may be pushed afterwards."""
        self._carried = b""
        return self._resampled(_EMPTY, last=True)

    def _resampled(self, mono: Float32, *, last: bool) -> Float32:
        if self._resampler is None or (mono.size == 0 and not last):
            return mono
        resampled: Float32 = self._resampler.resample_chunk(mono, last=last)
        return resampled


class FrameCutter:
    """Cuts a stream of samples into frames of `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rest = _EMPTY

    @property
    def waiting(self) -> int:
        """Samples that do not fill a frame yet."""
        return len(self._rest)

    def push(self, samples: Float32) -> Float32:
        """The frames completed by `samples`, (n, size)."""
        joined = np.concatenate((self._rest, samples)) if self._rest.size else samples
        whole = len(joined) - len(joined) % self._size
        self._rest = joined[whole:].copy()
        return joined[:whole].reshape(-1, self._size)

    def finish(self) -> Float32:
        """The last, incomplete frame filled up with silence, (1, size); (0, size) when there is none."""
        frame = np.zeros((1 if self._rest.size else 0, self._size), np.float32)
        if self._rest.size:
            frame[0, : len(self._rest)] = self._rest
        self._rest = _EMPTY
        return frame


class SampleWindow:
    """The recent part of a stream of samples, addressed by index from the start of the stream."""

    def __init__(self) -> None:
        self._pieces = _EMPTY
        self._start = 0

    @property
    def start(self) -> int:
        """Index of the oldest sample that is kept."""
        return self._start

    @property
    def end(self) -> int:
        """Samples heard so far."""
        return self._start + len(self._pieces)

    def push(self, samples: Float32) -> None:
        if samples.size:
            self._pieces = np.concatenate((self._pieces, samples))

    def cut(self, start: int, end: int) -> Float32:
        """A copy of the samples from `start` to `end`, limited to what is kept."""
        return self._pieces[max(start - self._start, 0) : max(end - self._start, 0)].copy()

    def forget(self, before: int) -> None:
        """Drops the samples before index `before`."""
        drop = min(max(before - self._start, 0), len(self._pieces))
        if drop:
            self._pieces = self._pieces[drop:].copy()
            self._start += drop


def levels_db(frames: Float32) -> Float32:
    """Level of each frame (n, size) as RMS in dBFS, (n,); digital silence is -120."""
    power = np.square(frames, dtype=np.float32).mean(axis=1)
    levels: Float32 = 10 * np.log10(np.maximum(power, np.float32(1e-12)))
    return levels


def _check(audio: AudioFormat) -> None:
    if not MIN_SAMPLE_RATE_HZ <= audio.sample_rate <= MAX_SAMPLE_RATE_HZ:
        raise InvalidInput(
            f"sample rate {audio.sample_rate} is outside {MIN_SAMPLE_RATE_HZ}..{MAX_SAMPLE_RATE_HZ} Hz",
            param="sample_rate",
        )
    if not 1 <= audio.channels <= MAX_CHANNELS:
        raise InvalidInput(f"{audio.channels} channels; 1 to {MAX_CHANNELS} are accepted", param="channels")


def _decoded(data: memoryview, audio: AudioFormat) -> Float32:
    """Interleaved PCM to float32 mono, (frames,)."""
    samples: Float32
    match audio.encoding:
        case "f32le":
            samples = np.nan_to_num(np.frombuffer(data, "<f4"), nan=0.0, posinf=0.0, neginf=0.0)
            samples = np.clip(samples, np.float32(-1), np.float32(1))
        case "s16le":
            samples = np.frombuffer(data, "<i2").astype(np.float32) * np.float32(1 / 32768)
        case "mulaw":
            samples = _MULAW[np.frombuffer(data, np.uint8)]
        case "alaw":
            samples = _ALAW[np.frombuffer(data, np.uint8)]
    if audio.channels > 1:
        samples = samples.reshape(-1, audio.channels).mean(axis=1, dtype=np.float32)
    return samples


def _mulaw_table() -> Float32:
    """G.711 mu-law: sign, three bits of segment, four of mantissa, all inverted; 14-bit values."""
    codes = ~np.arange(256, dtype=np.uint8)
    segment = (codes >> 4 & 7).astype(np.int32)
    magnitude = ((((codes & 15).astype(np.int32) << 1) + 33) << segment) - 33
    return _signed(magnitude * 4, codes >= 128)


def _alaw_table() -> Float32:
    """G.711 A-law: as mu-law with every other bit inverted and a linear lowest segment; 13-bit values."""
    codes = np.arange(256, dtype=np.uint8) ^ 0x55
    segment = (codes >> 4 & 7).astype(np.int32)
    mantissa = ((codes & 15).astype(np.int32) << 1) + 1
    magnitude = np.where(segment == 0, mantissa, (mantissa + 32) << np.maximum(segment - 1, 0))
    return _signed(magnitude * 8, codes < 128)


def _signed(magnitude: npt.NDArray[np.int32], negative: npt.NDArray[np.bool_]) -> Float32:
    signed: Float32 = np.where(negative, -magnitude, magnitude).astype(np.float32) / np.float32(32768)
    return signed


_MULAW = _mulaw_table()
_ALAW = _alaw_table()
