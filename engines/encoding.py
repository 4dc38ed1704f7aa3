"""PCM to the bytes of a file: WAV, bare PCM, and what libsndfile compresses to. Knows no run and no request.

Bytes leave as they are made, with a header that says that the length is not known. At the end an encoder tells how a
file that is kept whole is corrected, so that its header is right.
"""

import io
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import soundfile
import soxr

from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioFormat

_UNKNOWN_SIZE = 0xFFFFFFFF


Correction = tuple[int, bytes]
"""An offset in the file, and the bytes that are to stand there. No correction is longer than a header."""

OGG_PAGE_MS = 200.0
"""Audio in one page of a streamed file, 50 to 1600; libsndfile's own is a second, and pages are what leaves."""


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


@dataclass(frozen=True, slots=True)
class Compression:
    """How libsndfile makes a format. `rates_hz`, ascending, are those it can have; empty: any."""

    container: str
    subtype: str
    rates_hz: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


_COMPRESSIONS = {
    # A constant rate, about 64 kbit/s for speech: the length of a stream can then be told from its size.
    "mp3": Compression(
        "MP3",
        "MPEG_LAYER_III",
        (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
        {"bitrate_mode": "CONSTANT", "compression_level": 0.6},
    ),
    "flac": Compression("FLAC", "PCM_16"),
    "opus": Compression("OGG", "OPUS", (8000, 12000, 16000, 24000, 48000)),
}

FORMATS = ("wav", "pcm", *_COMPRESSIONS)


def open_encoder(name: str, audio: AudioFormat, *, streamed: bool) -> Encoder:
    """An encoder of PCM with the rate and channels of `audio`. Raises `InvalidInput` for what cannot be made.

    `streamed`: somebody listens while it is made.
    """
    if name == "wav":
        return WavEncoder(audio)
    if name == "pcm":
        return PcmEncoder()
    if name not in _COMPRESSIONS:
        raise _refusal(f"{name!r} is not made here; accepted are {', '.join(FORMATS)}")
    try:
        return CompressingEncoder(_COMPRESSIONS[name], audio, streamed=streamed)
    except soundfile.LibsndfileError as error:
        raise _refusal(f"{name} cannot have {audio.channels} channels at {audio.sample_rate} Hz") from error


def _refusal(why: str) -> InvalidInput:
    return InvalidInput(f"response_format: {why}", param="response_format")


class PcmEncoder:
    """16-bit little-endian samples without a header."""

    corrections: Sequence[Correction] = ()

    def push(self, samples: Float32) -> bytes:
        return to_pcm16(samples)

    def finish(self) -> bytes:
        return b""

    def close(self) -> None:
        pass


class WavEncoder:
    """A RIFF file of 16-bit PCM with the canonical header of 44 bytes, whose sizes are 0xFFFFFFFF until corrected."""

    def __init__(self, audio: AudioFormat) -> None:
        self.corrections: Sequence[Correction] = ()
        self._audio = audio
        self._header = wav_header(audio, None)
        self._data_bytes = 0

    def push(self, samples: Float32) -> bytes:
        pcm = to_pcm16(samples)
        self._data_bytes += len(pcm)
        header, self._header = self._header, b""
        return header + pcm

    def finish(self) -> bytes:
        self.corrections = [(0, wav_header(self._audio, self._data_bytes))]
        return self._header

    def close(self) -> None:
        pass


class CompressingEncoder:
    """A file by libsndfile, resampled where the format cannot have the rate of the audio."""

    def __init__(self, compression: Compression, audio: AudioFormat, *, streamed: bool) -> None:
        self._out = _Outgoing()
        self.corrections: Sequence[Correction] = self._out.corrections
        rate_hz = _nearest_rate_hz(compression.rates_hz, audio.sample_rate)
        self._resampler: soxr.ResampleStream | None = None
        if rate_hz != audio.sample_rate:
            self._resampler = soxr.ResampleStream(audio.sample_rate, rate_hz, audio.channels, dtype="float32")
        self._empty = np.zeros((0, audio.channels), np.float32)
        self._file = soundfile.SoundFile(
            self._out,
            "w",
            rate_hz,
            audio.channels,
            compression.subtype,
            format=compression.container,
            **compression.settings,
        )
        if streamed and compression.container == "OGG":
            _set_page_latency(self._file)

    def push(self, samples: Float32) -> bytes:
        self._file.write(self._resampled(samples, last=False))
        return self._out.take()

    def finish(self) -> bytes:
        self._file.write(self._resampled(self._empty, last=True))
        self._file.close()
        return self._out.take()

    def close(self) -> None:
        self._file.close()

    def _resampled(self, samples: Float32, *, last: bool) -> Float32:
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples, last=last)
        return np.clip(samples, -1.0, 1.0)


_SFC_SET_OGG_PAGE_LATENCY_MS = 0x1302


def _set_page_latency(file: soundfile.SoundFile) -> None:
    """soundfile has no setting for it, so libsndfile is told through soundfile's own binding."""
    value = soundfile._ffi.new("double*", OGG_PAGE_MS)
    size = soundfile._ffi.sizeof("double")
    soundfile._snd.sf_command(file._file, _SFC_SET_OGG_PAGE_LATENCY_MS, value, size)


class _Outgoing:
    """A file to its writer, who goes back at the end to complete the header: for bytes already taken that becomes a
    correction.
    """

    def __init__(self) -> None:
        self.corrections: list[Correction] = []
        self._held = io.BytesIO()
        self._taken = 0
        self._at = 0

    def take(self) -> bytes:
        data = self._held.getvalue()
        self._taken += len(data)
        self._held = io.BytesIO()
        return data

    def write(self, data: bytes) -> int:
        late = min(max(self._taken - self._at, 0), len(data))
        if late:
            self.corrections.append((self._at, bytes(data[:late])))
        self._held.seek(max(self._at - self._taken, 0))
        self._held.write(data[late:])
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._taken + self._held.getbuffer().nbytes}
        self._at = start[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at


def _nearest_rate_hz(rates_hz: tuple[int, ...], wanted_hz: int) -> int:
    """The lowest rate that loses nothing, else the highest."""
    if not rates_hz:
        return wanted_hz
    return next((rate for rate in rates_hz if rate >= wanted_hz), rates_hz[-1])


def wav_header(audio: AudioFormat, data_bytes: int | None) -> bytes:
    """The 44 bytes before 16-bit PCM. None, or more than the format can say: a size that means until the end."""
    frame_bytes = 2 * audio.channels
    whole = data_bytes if data_bytes is not None and data_bytes <= _UNKNOWN_SIZE - 36 else None
    sizes = (_UNKNOWN_SIZE, _UNKNOWN_SIZE) if whole is None else (36 + whole, whole)
    head = struct.pack("<4sI4s", b"RIFF", sizes[0], b"WAVE")
    rate = audio.sample_rate
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, audio.channels, rate, rate * frame_bytes, frame_bytes, 16)
    return head + form + struct.pack("<4sI", b"data", sizes[1])


def to_pcm16(samples: Float32) -> bytes:
    """16-bit little-endian PCM of float32 samples: clamped to [-1, 1], scaled by 32767 and rounded."""
    scaled = np.rint(np.clip(samples, -1.0, 1.0) * np.float32(32767.0))
    return bytes(scaled.astype("<i2").tobytes())
