"""An audio file of any kind as mono float32 at a rate of choice."""

import io
from collections.abc import Callable

import numpy as np
import soxr

from audiocpp.engines import ffmpeg
from audiocpp.engines.audio import MAX_SAMPLE_RATE_HZ, MIN_SAMPLE_RATE_HZ
from audiocpp.engines.containers import HEAD_BYTES, Container, recognise
from audiocpp.engines.errors import InvalidInput, TooLarge, UnsupportedMedia
from audiocpp.engines.ffmpeg_source import FfmpegSource
from audiocpp.engines.graph import Float32
from audiocpp.engines.media_source import Source, Undecodable, Unreadable
from audiocpp.engines.sndfile_source import SndfileSource
from audiocpp.engines.tasks import AudioInfo

_ALWAYS = "WAV, FLAC, OGG (Opus, Vorbis), MP3, AIFF, AU, CAF, W64 and RF64"
_WITH_FFMPEG = "WebM, MP4 or M4A, and AAC"


def accepted() -> str:
    """The kinds of files that are read here, for messages."""
    return f"{_ALWAYS}, {_WITH_FFMPEG}" if ffmpeg.is_installed() else _ALWAYS


class MediaFile:
    """An audio file read as mono float32 at `sample_rate` Hz, wherever it came from. Errors name `param`."""

    def __init__(self, source: str | io.BytesIO, sample_rate: int, max_seconds: float, *, param: str) -> None:
        self.sample_rate = sample_rate
        self._param = param
        self._bytes = source
        self._max_seconds = max_seconds
        self._source: Source | None = None
        self._info: AudioInfo | None = None
        self._resampler: soxr.ResampleStream | None = None
        self._frames_read = 0
        self._ended = False

    def open(self) -> AudioInfo:
        """Reads the header. Raises `InvalidInput` or `UnsupportedMedia`."""
        try:
            self._source = self._choose(recognise(self._head()))
            info = self._info = self._source.open()
        except OSError as error:
            raise self._invalid(f"cannot be read: {error.strerror}") from error
        except Unreadable as error:
            raise self._invalid(f"no readable audio ({error}); accepted are {accepted()}") from error
        except Undecodable as error:
            raise self._unsupported(str(error)) from error
        self._check_rate(info.sample_rate)
        if info.sample_rate != self.sample_rate:
            self._resampler = soxr.ResampleStream(info.sample_rate, self.sample_rate, 1, dtype="float32")
        return info

    def _choose(self, container: Container | None) -> Source:
        if container is None:
            return SndfileSource(self._bytes)
        if not container.demuxer:
            raise self._unsupported(container.name)
        if not ffmpeg.is_installed():
            raise self._unsupported(container.name, hint=f"; for this one: {ffmpeg.INSTALL_COMMAND}")
        return FfmpegSource(self._bytes, container)

    def read(self, check: Callable[[], None]) -> Float32:
        """The next samples, float32 (n,); empty at the end. Raises `TooLarge` past the longest accepted audio.

        `check` is called again and again, and raises when nobody waits any more.
        """
        assert self._source is not None
        assert self._info is not None
        while not self._ended:
            try:
                block = self._source.read(check)
            except Unreadable as error:
                at = self._frames_read / self._info.sample_rate
                raise self._invalid(f"damaged after {at:.2f} s: {error}") from error
            self._count(len(block))
            self._ended = len(block) == 0
            samples = self._resample(block)
            if samples.size:
                return samples
        return np.zeros(0, np.float32)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def _resample(self, mono: Float32) -> Float32:
        mono = np.nan_to_num(mono, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)
        if self._resampler is None:
            return mono
        resampled: Float32 = self._resampler.resample_chunk(mono, last=self._ended)
        return resampled

    def _count(self, frames: int) -> None:
        assert self._info is not None
        self._frames_read += frames
        if self._frames_read > self._max_seconds * self._info.sample_rate:
            limit = f"longer than {self._max_seconds:g} s of audio (max_audio_seconds)"
            raise TooLarge(f"{self._param}: {limit}", param=self._param)

    def _check_rate(self, rate_hz: int) -> None:
        """Resampling from rates that no recording has takes minutes and gigabytes."""
        if not MIN_SAMPLE_RATE_HZ <= rate_hz <= MAX_SAMPLE_RATE_HZ:
            accepted_hz = f"{MIN_SAMPLE_RATE_HZ}..{MAX_SAMPLE_RATE_HZ} Hz"
            raise self._invalid(f"its sample rate {rate_hz} is outside {accepted_hz}")

    def _invalid(self, why: str) -> InvalidInput:
        return InvalidInput(f"{self._param}: {why}", param=self._param)

    def _unsupported(self, what: str, *, hint: str = "") -> UnsupportedMedia:
        message = f"{self._param}: {what} cannot be decoded here; accepted are {accepted()}{hint}"
        return UnsupportedMedia(message, param=self._param)

    def _head(self) -> bytes:
        if isinstance(self._bytes, io.BytesIO):
            return self._bytes.getvalue()[:HEAD_BYTES]
        with open(self._bytes, "rb") as file:  # noqa: PTH123 - a plain name from the wire
            return file.read(HEAD_BYTES)
