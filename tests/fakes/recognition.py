"""A recogniser without weights: a word is a burst of constant amplitude, and its token is read off that amplitude.

So a test writes speech as a list of words, and a word that is lost, doubled, reordered or cut in two shows.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from audiocpp.engines.audio import levels_db

RATE = 16_000
WORD_S = 0.32
PAUSE_S = 0.096
UNIT = 1 / 512


def spoken(words: Iterable[int], *, pause_s: float = PAUSE_S) -> np.ndarray:
    """Each of `words` (1..500), followed by a pause."""
    pause = np.zeros(round(pause_s * RATE), np.float32)
    parts = [np.concatenate((np.full(round(WORD_S * RATE), word * UNIT, np.float32), pause)) for word in words]
    return np.concatenate(parts) if parts else pause


def silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * RATE), np.float32)


class FakeVoiceNetwork:
    """Hears a word in every frame that is louder than -70 dBFS, and for 0.2 s after one."""

    def probabilities(self, rows, control):
        return [self._follow(row) for row in rows]

    def _follow(self, row):
        found = []
        held = int(row.state.hidden[0, 0, 0])
        for level in levels_db(row.frames):
            held = 7 if level > -70 else max(held - 1, 0)
            found.append(1.0 if held else 0.0)
        hidden = np.full_like(row.state.hidden, held)
        return np.array(found, np.float32), type(row.state)(row.state.context, hidden, row.state.cell)


class FakeDecoder:
    """`calls` holds the lengths in samples of the rows of each call."""

    max_rows = 4

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def decode(self, rows, control):
        self.calls.append([len(row.samples) for row in rows])
        return [heard_words(row.samples)[len(row.prefix) :] for row in rows]

    def text(self, tokens: Sequence[int]) -> str:
        return "".join(f" w{token}" for token in tokens)

    def starts_word(self, token: int) -> bool:
        return True


def heard_words(samples: np.ndarray) -> tuple[int, ...]:
    """The words in `samples`. Less than a tenth of one is not recognised."""
    codes = np.rint(samples / UNIT).astype(int)
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    lengths = np.diff(starts, append=len(codes))
    return tuple(codes[starts[(lengths > WORD_S * RATE / 10) & (codes[starts] > 0)]].tolist())
