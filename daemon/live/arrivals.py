"""When which part of a live recording arrived, to tell how long after it an answer came."""

from bisect import bisect_left
from collections import deque

KEPT = 4096
"""Pieces remembered: 80 s of 20 ms frames. Answers to older audio have no latency."""


class Arrivals:
    """The arrival times of the pieces of a recording. `first_s` is that of the first one."""

    def __init__(self) -> None:
        self.first_s: float | None = None
        self._ends: deque[float] = deque(maxlen=KEPT)
        self._times: deque[float] = deque(maxlen=KEPT)

    def add(self, audio_end_s: float, now_s: float) -> None:
        """A piece arrived that ends at `audio_end_s` of the recording."""
        if self.first_s is None:
            self.first_s = now_s
        self._ends.append(audio_end_s)
        self._times.append(now_s)

    def latency_ms(self, at_s: float, now_s: float) -> float | None:
        """Time since the piece with the second `at_s` of the recording came; None if that is not known."""
        index = bisect_left(self._ends, at_s)
        if not self._ends or (index == 0 and self._ends[0] > at_s and len(self._ends) == KEPT):
            return None
        return (now_s - self._times[min(index, len(self._times) - 1)]) * 1e3
