"""Where `listen` takes its audio from: a WAV file, a pipe of raw PCM, a program that records or decodes.

A source hands out raw PCM when it is due. Standard library only.
"""

import os
import subprocess
import time
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from audiocpp.control.failures import Failed

_PACED_CHUNK_S = 0.02
_FREE_CHUNK_S = 0.5
_SAMPLE_BYTES = {"s16le": 2, "f32le": 4, "mulaw": 1, "alaw": 1}
SAMPLE_FORMATS = tuple(_SAMPLE_BYTES)


class PcmFormat(NamedTuple):
    """Interleaved raw PCM, named as the live route names it. `sample_rate` in Hz."""

    sample_rate: int = 16_000
    channels: int = 1
    sample_format: str = "s16le"

    @property
    def frame_bytes(self) -> int:
        return _SAMPLE_BYTES[self.sample_format] * self.channels


class PcmSource(Protocol):
    """`fileno` is what to wait for before a read, None when a read never blocks."""

    format: PcmFormat

    def fileno(self) -> int | None: ...

    def read(self, max_bytes: int) -> bytes:
        """At most `max_bytes`, a multiple of the frame for files; empty at the end. Raises Failed."""

    def close(self) -> None:
        """Stop recording and release what is held. Nothing more is read."""


class Pacer:
    """Deals out a source's audio at `pace` times real time; 0 means as fast as it is taken."""

    def __init__(self, format: PcmFormat, *, pace: float) -> None:  # noqa: A002 - the name of the thing
        self._bytes_per_s = format.sample_rate * format.frame_bytes * pace
        chunk_s = _PACED_CHUNK_S if pace else _FREE_CHUNK_S
        self.chunk_bytes = max(1, int(format.sample_rate * chunk_s)) * format.frame_bytes
        self._started_s = time.monotonic()
        self._sent_bytes = 0

    def due_in_s(self) -> float:
        """Time until the next chunk may be sent; 0 when it is due."""
        if not self._bytes_per_s:
            return 0.0
        return max(0.0, self._started_s + self._sent_bytes / self._bytes_per_s - time.monotonic())

    def sent(self, count: int) -> None:
        self._sent_bytes += count


class WavSource:
    """A WAV file with integer samples; wider ones than 16 bits lose their low bits."""

    def __init__(self, path: Path) -> None:
        """Raises wave.Error for what the wave module does not read, and OSError."""
        self._file = wave.open(str(path), "rb")  # noqa: SIM115 - closed by close()
        self._width = self._file.getsampwidth()
        self.format = PcmFormat(self._file.getframerate(), self._file.getnchannels(), "s16le")

    def fileno(self) -> None:
        return None

    def read(self, max_bytes: int) -> bytes:
        return as_s16le(self._file.readframes(max_bytes // self.format.frame_bytes), self._width)

    def close(self) -> None:
        self._file.close()


class PipeSource:
    """Raw PCM from a file descriptor, which stays the caller's."""

    def __init__(self, descriptor: int, format: PcmFormat) -> None:  # noqa: A002
        self.format = format
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def read(self, max_bytes: int) -> bytes:
        return os.read(self._descriptor, max_bytes)

    def close(self) -> None:
        """Leave the descriptor alone."""


class ProgramSource:
    """Raw PCM from the standard output of a program, whose own messages go to standard error."""

    def __init__(self, command: Sequence[str], format: PcmFormat) -> None:  # noqa: A002
        self.format = format
        self._program = command[0]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdout is not None
        self._stdout = self._process.stdout

    def fileno(self) -> int:
        return self._stdout.fileno()

    def read(self, max_bytes: int) -> bytes:
        data = os.read(self._stdout.fileno(), max_bytes)
        if not data and self._process.wait() != 0:
            raise Failed(f"{self._program} failed with status {self._process.returncode}; its message is above.")
        return data

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._stdout.close()


def as_s16le(samples: bytes, width: int) -> bytes:
    """Little-endian integer samples of 1 (unsigned), 2, 3 or 4 bytes as 16-bit ones."""
    if width == 2:
        return samples
    narrowed = bytearray(len(samples) // width * 2)
    if width == 1:
        narrowed[1::2] = samples.translate(_FLIPPED_SIGN)
    else:
        narrowed[0::2] = samples[width - 2 :: width]
        narrowed[1::2] = samples[width - 1 :: width]
    return bytes(narrowed)


_FLIPPED_SIGN = bytes(value ^ 0x80 for value in range(256))
