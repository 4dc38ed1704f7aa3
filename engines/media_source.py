"""What reads a media file, whatever the library: mono samples at the file's own rate, block by block."""

from collections.abc import Callable
from typing import Protocol

from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioInfo

BLOCK_S = 10.0
"""Audio decoded at a time: some milliseconds of work and 640 KB at 16 kHz. Each block costs a trip through
three threads and two processes: a clip of 10 s in blocks of 2 s took 2 ms longer."""

BLOCK_SAMPLES = 1 << 21
"""The same bound for high rates and many channels, of which libsndfile takes 1024."""


class Unreadable(Exception):
    """The file is none that the source reads, or it is damaged. The text says why."""


class Undecodable(Exception):
    """The file is of a known kind that is not decoded here. The text names it."""


class Source(Protocol):
    def open(self) -> AudioInfo:
        """Reads the header. Raises `Unreadable` or `Undecodable`."""
        ...

    def read(self, check: Callable[[], None]) -> Float32:
        """The next block, float32 (n,), the mean of the channels; empty at the end. Raises `Unreadable`.

        `check` is called again and again, and raises when nobody waits any more.
        """
        ...

    def close(self) -> None:
        """May be called at any time, and again."""
        ...


def block_frames(rate_hz: int, channels: int) -> int:
    """Frames to decode at a time."""
    return min(int(BLOCK_S * rate_hz), BLOCK_SAMPLES // channels)
