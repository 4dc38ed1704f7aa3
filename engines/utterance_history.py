"""The utterances before the one in progress, as context for a recogniser that errs on single words without one."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from audiocpp.engines.utterances import Tokens
from audiocpp.engines.voice_activity import SAMPLE_RATE_HZ

_CONTEXT_SAMPLES: Final = 6 * SAMPLE_RATE_HZ
"""Longest audio of an utterance together with its context: longer costs more and, measured, helps no more."""

_MAX_GAP_SAMPLES: Final = 2 * SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class Spoken:
    """A finished utterance: its audio and all its tokens."""

    start: int
    end: int
    tokens: Tokens


class UtteranceHistory:
    """The last utterances, as far as they may serve as context."""

    def __init__(self) -> None:
        self._spoken: deque[Spoken] = deque()

    @property
    def start(self) -> int | None:
        """Where the audio begins that is still needed."""
        return self._spoken[0].start if self._spoken else None

    def add(self, spoken: Spoken) -> None:
        self._spoken.append(spoken)

    def clear(self) -> None:
        self._spoken.clear()

    def context(self, start: int, end: int) -> tuple[int, Tokens]:
        """Where the audio for the utterance `start`..`end` begins, and the tokens known for what precedes it."""
        if self._spoken and start - self._spoken[-1].end > _MAX_GAP_SAMPLES:
            self._spoken.clear()
        while self._spoken and end - self._spoken[0].start > _CONTEXT_SAMPLES:
            self._spoken.popleft()
        if not self._spoken:
            return start, ()
        return self._spoken[0].start, tuple(token for spoken in self._spoken for token in spoken.tokens)
