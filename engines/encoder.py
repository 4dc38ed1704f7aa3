"""What makes a file of PCM, whatever the library."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import soxr

from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioFormat

Correction = tuple[int, bytes]
"""An offset in the file, and the bytes that are to stand there. No correction is longer than a header."""


class Encoder(Protocol):
    corrections: Sequence[Correction]
    """What replaces bytes of a whole file; complete after `finish`."""

    def push(self, samples: Float32) -> bytes:
        """Takes float32 (frames, channels) in [-1, 1]; returns the bytes that are ready, perhaps none."""
        ...

    def finish(self) -> bytes:
        """The rest of the file."""
        ...

    def close(self) -> None:
        """Frees what is held, also in the middle of a file."""
        ...


class RateFitting:
    """Resamples to a rate that a format can have, where it cannot have that of the audio, and clamps to [-1, 1].

    `rates_hz`, ascending, are those it can have; empty: any.
    """

    def __init__(self, audio: AudioFormat, rates_hz: Sequence[int]) -> None:
        self.rate_hz = _nearest_rate_hz(rates_hz, audio.sample_rate)
        self._resampler: soxr.ResampleStream | None = None
        if self.rate_hz != audio.sample_rate:
            self._resampler = soxr.ResampleStream(audio.sample_rate, self.rate_hz, audio.channels, dtype="float32")
        self._empty = np.zeros((0, audio.channels), np.float32)

    def push(self, samples: Float32) -> Float32:
        """Float32 (frames, channels) at the fitting rate, perhaps none."""
        return self._fitted(samples, last=False)

    def finish(self) -> Float32:
        """The rest."""
        return self._fitted(self._empty, last=True)

    def _fitted(self, samples: Float32, *, last: bool) -> Float32:
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples, last=last)
        return np.clip(samples, -1.0, 1.0)


def _nearest_rate_hz(rates_hz: Sequence[int], wanted_hz: int) -> int:
    """The lowest rate that loses nothing, else the highest."""
    if not rates_hz:
        return wanted_hz
    return next((rate for rate in rates_hz if rate >= wanted_hz), rates_hz[-1])
