"""Forced alignment: which frames of a CTC network's output say which label of a known text.

Viterbi over the labels with a gap of blanks before, between and after them (Graves et al. 2006; Kürzinger et al. 2020,
arXiv:2007.09127), a frame at a time and all labels at once. Memory does not follow the length of the recording, and of
the text it keeps a few numbers a label: only a band of labels around the best one is followed, and when the past has
grown too large, its older half is settled by what is best at that time. Five minutes of speech are aligned exactly.
Nothing here knows of sounds, words or seconds.

A state of a path is one number: `2 * i` in the gap before label `i`, `2 * i + 1` in label `i`. From one frame to the
next a path stays, goes to the next state, or goes from a label straight to the next one if that is another symbol.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from audiocpp.engines.graph import Float32

Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

BAND_LABELS: Final = 4096
"""Labels followed at a time. English speech has about 13 a second: a minute before the best one, and more after it."""

HISTORY_BYTES: Final = 32 << 20
"""What is remembered of the past before a part of it is settled: five minutes with a full band, more with a short
text."""

_FRAMES_AT_ONCE: Final = 512
"""The band moves so often. A path gains at most one label a frame, so the best one stays inside."""

_LEAST_LOG_PROBABILITY: Final = -12.0
"""What a symbol costs at most in a frame: one that the network never gives must not tear others from their place."""


@dataclass(frozen=True, slots=True)
class LabelSpans:
    """Where the labels are; all (n,).

    Attributes:
        starts, ends: int32, the first frame of each and the one after its last. They neither overlap nor go back.
        posteriors: float32, the sum of each label's probability in its frames.
    """

    starts: Int32
    ends: Int32
    posteriors: Float32


@dataclass(frozen=True, slots=True)
class _Block:
    """What is remembered of some frames.

    Attributes:
        low: first label of the band.
        moves: uint8 (frames, 3, band / 8), bits of the labels: reached from its gap; reached from the label before;
            the gap after it reached from it.
        posteriors: float16 (frames, symbols of the text).
    """

    low: int
    moves: npt.NDArray[np.uint8]
    posteriors: npt.NDArray[np.float16]

    @property
    def size_bytes(self) -> int:
        return self.moves.nbytes + self.posteriors.nbytes


class CtcAlignment:
    """One text being aligned: `advance` takes the network's output as it comes, `finish` gives the result."""

    def __init__(
        self,
        labels: Int32,
        ends_word: Bool,
        *,
        blank: int,
        boundary: int,
        band_labels: int = BAND_LABELS,
        history_bytes: int = HISTORY_BYTES,
    ) -> None:
        """
        Args:
            labels: the symbols of the text, (n,), at least one.
            ends_word: which of them are the last of a word, (n,).
            blank: the symbol for nothing.
            boundary: the symbol that the network may give between words; there it is as good as a blank.
            band_labels: a text of so many labels is followed as a whole.
            history_bytes: what is remembered of the past.
        """
        self._symbols, columns = np.unique(labels, return_inverse=True)
        self._columns = columns.astype(np.int32)
        self._skip_costs = np.where(np.append(False, labels[1:] != labels[:-1]), 0, -np.inf).astype(np.float32)
        self._between_words = np.append(True, ends_word)
        self._blank, self._boundary = blank, boundary
        self._history_bytes = history_bytes
        self._band = min(band_labels, len(labels))
        self._low = 0
        self._labels = np.full(self._band, -np.inf, np.float32)
        self._gaps = np.full(self._band + 1, -np.inf, np.float32)
        self._gaps[0] = 0
        self._blocks: deque[_Block] = deque()
        self._settled_frames = 0
        self._spans = LabelSpans(
            starts=np.full(len(labels), np.iinfo(np.int32).max, np.int32),
            ends=np.zeros(len(labels), np.int32),
            posteriors=np.zeros(len(labels), np.float32),
        )

    def advance(self, log_probs: Float32) -> None:
        """Takes the log probabilities of the next frames, (frames, symbols)."""
        for start in range(0, len(log_probs), _FRAMES_AT_ONCE):
            self._move_band()
            self._blocks.append(self._follow(log_probs[start : start + _FRAMES_AT_ONCE]))
            if len(self._blocks) > 1 and sum(block.size_bytes for block in self._blocks) > self._history_bytes:
                self._settle(len(self._blocks) // 2)

    def finish(self) -> LabelSpans | None:
        """The spans of all labels; None when the frames end before the labels do."""
        count = len(self._columns)
        scores = self._scores()
        last_label_and_gap = scores[-2:]
        if self._low + self._band < count or np.isneginf(last_label_and_gap.max()):
            return None
        self._record(self._blocks, state=2 * count - 1 + int(last_label_and_gap.argmax()))
        self._blocks.clear()
        return self._spans

    def _scores(self) -> Float32:
        """Of the states from `2 * low` on, (2 * band + 1,)."""
        scores = np.empty(2 * self._band + 1, np.float32)
        scores[::2], scores[1::2] = self._gaps, self._labels
        return scores

    def _move_band(self) -> None:
        """Brings the best label back to the first quarter when it is in the second half, and scores near zero."""
        scores = self._scores()
        best = int(scores.argmax()) // 2
        shift = min(best - self._band // 4, len(self._columns) - self._band - self._low)
        if best > self._band // 2 and shift > 0:
            self._low += shift
            for values in (self._labels, self._gaps):
                values[:-shift] = values[shift:].copy()
                values[-shift:] = -np.inf
        for values in (self._labels, self._gaps):
            values -= scores.max()

    def _follow(self, log_probs: Float32) -> _Block:
        """Moves all paths on by some frames."""
        band = slice(self._low, self._low + self._band)
        columns, skip_costs = self._columns[band], self._skip_costs[band]
        between_words = self._between_words[self._low : self._low + self._band + 1]
        symbols = np.maximum(log_probs[:, self._symbols], _LEAST_LOG_PROBABILITY)
        blanks = np.maximum(log_probs[:, self._blank], _LEAST_LOG_PROBABILITY)
        pauses = np.logaddexp(blanks, log_probs[:, self._boundary])
        labels, gaps = self._labels, self._gaps
        skipped = np.full_like(labels, -np.inf)
        moved = np.empty((3, self._band), np.bool_)
        moves = np.empty((len(log_probs), 3, -(-self._band // 8)), np.uint8)
        for frame in range(len(log_probs)):
            np.add(labels[:-1], skip_costs[1:], out=skipped[1:])
            reached = np.maximum(labels, gaps[:-1])
            np.greater(gaps[:-1], labels, out=moved[0])
            np.greater(skipped, reached, out=moved[1])
            np.greater(labels, gaps[1:], out=moved[2])
            np.maximum(gaps[1:], labels, out=gaps[1:])
            gaps += np.where(between_words, pauses[frame], blanks[frame])
            np.maximum(reached, skipped, out=labels)
            labels += symbols[frame, columns]
            moves[frame] = np.packbits(moved, axis=1)
        return _Block(self._low, moves, np.exp(log_probs[:, self._symbols]).astype(np.float16))

    def _settle(self, count: int) -> None:
        """Decides the oldest `count` blocks by the best path, and ends the paths that came another way."""
        settled = [self._blocks.popleft() for _ in range(count)]
        (origins,) = deque(self._walk_back(self._blocks, 2 * self._low + np.arange(2 * self._band + 1)), maxlen=1)
        origin = origins[self._scores().argmax()]
        self._gaps[origins[::2] != origin] = -np.inf
        self._labels[origins[1::2] != origin] = -np.inf
        self._record(settled, state=int(origin))

    def _walk_back(self, blocks: Sequence[_Block], states: npt.NDArray[np.int_]) -> Iterator[npt.NDArray[np.int_]]:
        """Yields the states in which the paths to `states` are in each frame, the last frame first, and then those in
        which they were before the first. Of states that no path reaches it says nothing."""
        steps = np.zeros(2 * self._band + 1, np.uint8)
        for block in reversed(blocks):
            for bits in reversed(block.moves):
                yield states
                from_gap, from_label, left = np.unpackbits(bits, axis=1, count=self._band)
                np.copyto(steps[1::2], np.maximum(from_gap, 2 * from_label))
                steps[2::2] = left
                states = states - steps.take(states - 2 * block.low, mode="clip")
        yield states

    def _record(self, blocks: Sequence[_Block], *, state: int) -> None:
        """Writes down the spans of the labels on the path that is in `state` at the end of `blocks`."""
        *backwards, _ = (int(states[0]) for states in self._walk_back(blocks, np.array([state])))
        path = np.array(backwards[::-1], np.int32)
        frames = np.flatnonzero(path & 1)
        labels, first, lengths = np.unique(path[frames] >> 1, return_index=True, return_counts=True)
        posteriors = np.concatenate([block.posteriors for block in blocks])
        values = posteriors[frames, self._columns[path[frames] >> 1]].astype(np.float32)
        starts = self._settled_frames + frames[first]
        self._spans.starts[labels] = np.minimum(self._spans.starts[labels], starts)
        self._spans.ends[labels] = starts + lengths
        self._spans.posteriors[labels] += np.add.reduceat(values, first) if len(first) else 0
        self._settled_frames += len(path)
