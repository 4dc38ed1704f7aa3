"""Speech probabilities to decisions: where speech starts, where it stops, where very long speech is cut.

A state machine over frames, without clock, audio or model. Frames are counted from the start of the stream. The
thresholds with hysteresis and the two minimum lengths are those of Silero's own post-processing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

HYSTERESIS: Final = 0.15
"""Speech, once found, goes on down to this much below the threshold (Silero's default)."""

_CUT_SMOOTHING_FRAMES: Final = 3


@dataclass(frozen=True, slots=True)
class SpeechRules:
    """When frames count as a stretch of speech. Lengths in frames; `max_speech` 0 means without limit."""

    threshold: float = 0.5
    min_speech: int = 8
    min_silence: int = 4
    max_speech: int = 0

    @property
    def release(self) -> float:
        """Probability below which speech has paused."""
        return max(self.threshold - HYSTERESIS, 0.01)


def frames_of(duration_ms: float, frame_ms: float) -> int:
    """Whole frames that last at least `duration_ms`."""
    return math.ceil(duration_ms / frame_ms)


@dataclass(frozen=True, slots=True)
class SpeechStart:
    """Speech began at frame `at`; told once it has lasted `min_speech`."""

    at: int


@dataclass(frozen=True, slots=True)
class SpeechCut:
    """Speech reached its longest length and is divided before frame `at`, where it is quietest; it goes on."""

    at: int


@dataclass(frozen=True, slots=True)
class SpeechStop:
    """Speech ended before frame `at`; told once it has been silent for `min_silence`."""

    at: int


SpeechEvent = SpeechStart | SpeechCut | SpeechStop


class VoiceDetector:
    """Follows one stream. Events come in the order of their frames: a start, any cuts, a stop."""

    def __init__(self, rules: SpeechRules) -> None:
        self._rules = rules
        self._position = 0
        self._start: int | None = None
        self._silence: int | None = None
        self._confirmed = False
        self._undivided = 0
        self._levels: list[float] = []

    @property
    def in_speech(self) -> bool:
        """Whether a start was told whose stop was not."""
        return self._confirmed

    @property
    def earliest(self) -> int:
        """No later event lies before this frame."""
        return self._position if self._start is None else self._start

    def push(self, probabilities: Sequence[float], levels_db: Sequence[float]) -> list[SpeechEvent]:
        """Takes the speech probability and the level of each next frame."""
        events: list[SpeechEvent] = []
        for probability, level in zip(probabilities, levels_db, strict=True):
            self._position += 1
            if self._start is None and probability >= self._rules.threshold:
                self._start = self._position - 1
            if self._start is not None:
                events += self._follow(self._start, probability, level)
        return events

    def keep_undivided(self, before: int) -> None:
        """No cut before this frame, as far as the longest length allows: its text is already told."""
        self._undivided = before

    def flush(self) -> list[SpeechEvent]:
        """Ends the speech in progress, if any. Later frames start anew."""
        stop = self._position if self._silence is None else self._silence
        return self._end(stop)

    def _follow(self, start: int, probability: float, level: float) -> list[SpeechEvent]:
        rules = self._rules
        if rules.max_speech:
            self._levels.append(level)
        if probability >= rules.threshold:
            self._silence = None
        elif probability < rules.release and self._silence is None:
            self._silence = self._position - 1
        end = self._position if self._silence is None else self._silence
        events: list[SpeechEvent] = []
        if not self._confirmed and end - start >= rules.min_speech:
            self._confirmed = True
            events.append(SpeechStart(start))
        if self._silence is not None and self._position - self._silence >= rules.min_silence:
            return events + self._end(self._silence)
        if rules.max_speech and self._position - start >= rules.max_speech:
            events.append(self._cut(start))
        return events

    def _end(self, at: int) -> list[SpeechEvent]:
        events: list[SpeechEvent] = [SpeechStop(at)] if self._confirmed else []
        self._start = self._silence = None
        self._confirmed = False
        self._levels.clear()
        return events

    def _cut(self, start: int) -> SpeechCut:
        """Cuts in the later half, so that no piece is short, or even later where that must not be divided."""
        window = np.convolve(self._levels, np.ones(_CUT_SMOOTHING_FRAMES), mode="same")
        last = max(len(window) - _CUT_SMOOTHING_FRAMES, 1)
        first = min(max(len(window) // 2, self._undivided - start), last - 1)
        offset = first + int(np.argmin(window[first:last]))
        self._start = start + offset
        del self._levels[:offset]
        return SpeechCut(self._start)
