"""Utterances: the pieces of speech that a whole-utterance recogniser decodes, and how speech becomes such pieces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from audiocpp.engines.audio import levels_db
from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.graph import Float32
from audiocpp.engines.voice_activity import FRAME_SAMPLES, SAMPLE_RATE_HZ

Tokens = tuple[int, ...]

PAD_SAMPLES: Final = SAMPLE_RATE_HZ // 5
"""Audio kept before and after detected speech, 0.2 s: the first and last sounds are often too soft to be detected."""

_AUDIBLE_DB: Final = -60.0


@dataclass(frozen=True, slots=True)
class Utterance:
    """Speech to decode.

    Attributes:
        samples: float32 (n,), mono, 16 kHz, -1..1.
        prefix: tokens already known for its beginning; decoding goes on from there.
    """

    samples: Float32
    prefix: Tokens = ()


class UtteranceDecoder(Protocol):
    """A recogniser of whole utterances."""

    @property
    def max_rows(self) -> int:
        """Utterances that are worth decoding in one call."""
        ...

    def decode(self, rows: Sequence[Utterance], control: RunControl) -> Sequence[Tokens]:
        """For each row the tokens that follow its prefix."""
        ...

    def text(self, tokens: Tokens) -> str:
        """The text of tokens, with the space before a first word that has one."""
        ...

    def starts_word(self, token: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples `start` to `end` of a stream."""

    start: int
    end: int

    @property
    def start_s(self) -> float:
        return self.start / SAMPLE_RATE_HZ

    @property
    def end_s(self) -> float:
        return self.end / SAMPLE_RATE_HZ

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


class StretchPacker:
    """Joins neighbouring stretches of speech up to a length: a recogniser makes fewer errors with more context."""

    def __init__(self, *, max_samples: int, max_gap: int) -> None:
        self._max_samples = max_samples
        self._max_gap = max_gap
        self._open: Stretch | None = None

    @property
    def open(self) -> Stretch | None:
        return self._open

    def add(self, stretch: Stretch) -> Stretch | None:
        """Takes the next stretch; returns the pack that it did not fit into any more."""
        held = self._open
        if held and stretch.end - held.start <= self._max_samples and stretch.start - held.end <= self._max_gap:
            self._open = Stretch(held.start, stretch.end)
            return None
        self._open = stretch
        return held

    def finish(self) -> Stretch | None:
        held, self._open = self._open, None
        return held


def is_audible(samples: Float32) -> bool:
    """Whether anything is loud enough to be speech: some 32 ms of -60 dBFS or more."""
    whole = len(samples) - len(samples) % FRAME_SAMPLES
    frames = samples[:whole].reshape(-1, FRAME_SAMPLES)
    return bool(len(frames)) and bool(levels_db(frames).max() >= _AUDIBLE_DB)
