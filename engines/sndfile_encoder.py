"""Compressed files by libsndfile: MP3, FLAC, and Opus in OGG."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import soundfile

from audiocpp.engines.encoder import Correction, RateFitting
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioFormat

OGG_PAGE_MS = 200.0
"""Audio in one page of a streamed file, 50 to 1600; libsndfile's own is a second, and pages are what leaves."""


@dataclass(frozen=True, slots=True)
class Compression:
    """How libsndfile makes a format. `rates_hz`, ascending, are those it can have; empty: any."""

    container: str
    subtype: str
    rates_hz: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


COMPRESSIONS = {
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


class SndfileEncoder:
    """Raises `soundfile.LibsndfileError` for channels or a rate that the format cannot have."""

    def __init__(self, compression: Compression, audio: AudioFormat, *, streamed: bool) -> None:
        self._out = _Outgoing()
        self.corrections: Sequence[Correction] = self._out.corrections
        self._fitting = RateFitting(audio, compression.rates_hz)
        self._file = soundfile.SoundFile(
            self._out,
            "w",
            self._fitting.rate_hz,
            audio.channels,
            compression.subtype,
            format=compression.container,
            **compression.settings,
        )
        if streamed and compression.container == "OGG":
            _set_page_latency(self._file)

    def push(self, samples: Float32) -> bytes:
        self._file.write(self._fitting.push(samples))
        return self._out.take()

    def finish(self) -> bytes:
        self._file.write(self._fitting.finish())
        self._file.close()
        return self._out.take()

    def close(self) -> None:
        self._file.close()


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
