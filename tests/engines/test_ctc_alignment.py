"""Viterbi over a CTC network's output, against the best of all paths, and with bounded memory."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audiocpp.engines.ctc_alignment import CtcAlignment, LabelSpans

SYMBOLS = 6
BOUNDARY, BLANK = SYMBOLS - 2, SYMBOLS - 1


def every_path(labels: list[int], frames: int) -> Iterator[list[int]]:
    """All paths: for each frame the state, `2 * i` in the gap before label `i`, `2 * i + 1` in the label."""

    def onwards(path: list[int]) -> Iterator[list[int]]:
        if len(path) == frames:
            if path[-1] >= 2 * len(labels) - 1:
                yield path
            return
        state = path[-1]
        following = [state, state + 1]
        if state % 2 and state + 2 < 2 * len(labels) and labels[state // 2] != labels[state // 2 + 1]:
            following.append(state + 2)
        for state in following:
            if state <= 2 * len(labels):
                yield from onwards([*path, state])

    yield from onwards([0])
    yield from onwards([1])


def best_score(labels: list[int], ends_word: list[bool], log_probs: np.ndarray) -> float:
    pauses = np.logaddexp(log_probs[:, BLANK], log_probs[:, BOUNDARY])

    def score(frame: int, state: int) -> float:
        if state % 2:
            return log_probs[frame, labels[state // 2]]
        between_words = state == 0 or ends_word[state // 2 - 1]
        return pauses[frame] if between_words else log_probs[frame, BLANK]

    paths = every_path(labels, len(log_probs))
    return max((sum(score(*place) for place in enumerate(path)) for path in paths), default=-np.inf)


def score_of(spans: LabelSpans, labels: list[int], ends_word: list[bool], log_probs: np.ndarray) -> float:
    """Of the path that has these spans."""
    gaps = np.full(len(log_probs), -1)
    total, end = 0.0, 0
    pauses = np.logaddexp(log_probs[:, BLANK], log_probs[:, BOUNDARY])
    bounds = [*zip(spans.starts.tolist(), spans.ends.tolist(), strict=True), (len(log_probs), len(log_probs))]
    for number, (start, next_end) in enumerate(bounds):
        between_words = number == 0 or ends_word[number - 1]
        gaps[end:start] = number
        total += (pauses if between_words else log_probs[:, BLANK])[end:start].sum()
        if number < len(labels):
            total += log_probs[start:next_end, labels[number]].sum()
        end = next_end
    return float(total)


def aligned(labels, ends_word, log_probs, *, pieces: int = 1, **bounds) -> LabelSpans | None:
    alignment = CtcAlignment(np.array(labels, np.int32), np.array(ends_word), blank=BLANK, boundary=BOUNDARY, **bounds)
    for piece in np.array_split(log_probs, pieces):
        alignment.advance(piece)
    return alignment.finish()


def random_log_probs(seed: int, frames: int) -> np.ndarray:
    """None below e^-12, where the cost of a symbol ends."""
    probabilities = np.random.default_rng(seed).dirichlet(np.full(SYMBOLS, 0.5), frames)
    return np.log(np.maximum(probabilities, 1e-5)).astype(np.float32)


@given(
    st.lists(st.tuples(st.integers(0, BOUNDARY - 1), st.booleans()), min_size=1, max_size=4),
    st.integers(1, 8),
    st.integers(0, 1000),
    st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
def test_the_path_is_the_best_of_all(text, frames: int, seed: int, pieces: int) -> None:
    labels, ends_word = map(list, zip(*text, strict=True))
    log_probs = random_log_probs(seed, frames)
    best = best_score(labels, ends_word, log_probs)
    spans = aligned(labels, ends_word, log_probs, pieces=pieces)
    if spans is None:
        assert best == -np.inf
        return
    assert (spans.starts < spans.ends).all()
    assert (spans.ends[:-1] <= spans.starts[1:]).all()
    assert score_of(spans, labels, ends_word, log_probs) == pytest.approx(best, abs=1e-3)


def test_posteriors_are_summed_over_the_frames_of_a_label() -> None:
    probabilities = np.full((6, SYMBOLS), 0.01)
    for frame, (symbol, probability) in enumerate([(BLANK, 0.9), (0, 0.5), (0, 0.75), (BLANK, 0.9), (1, 0.25), (1, 1)]):
        probabilities[frame, symbol] = probability
    spans = aligned([0, 1], [False, True], np.log(probabilities).astype(np.float32))
    assert spans.starts.tolist() == [1, 4]
    assert spans.ends.tolist() == [3, 6]
    assert spans.posteriors == pytest.approx([1.25, 1.25], abs=2e-3)


def test_labels_need_a_frame_each_and_the_same_label_twice_one_between() -> None:
    log_probs = random_log_probs(1, 3)
    assert aligned([0, 1, 2], [True] * 3, log_probs) is not None
    assert aligned([0, 1, 1], [True] * 3, log_probs) is None
    assert aligned([0], [True], log_probs[:0]) is None


def test_a_boundary_is_a_pause_between_words_and_nothing_within_one() -> None:
    probabilities = np.full((5, SYMBOLS), 0.02)
    for frame, symbol in enumerate([0, BOUNDARY, 1, BLANK, 2]):
        probabilities[frame, symbol] = 0.9
    log_probs = np.log(probabilities).astype(np.float32)
    assert aligned([0, 1, 2], [True, True, True], log_probs).starts.tolist() == [0, 2, 4]
    within = aligned([0, 1, 2], [False, True, True], log_probs)
    assert score_of(within, [0, 1, 2], [False, True, True], log_probs) == pytest.approx(
        best_score([0, 1, 2], [False, True, True], log_probs), abs=1e-3
    )


def test_a_symbol_that_is_never_given_does_not_move_the_others() -> None:
    probabilities = np.full((40, SYMBOLS), 1e-3)
    probabilities[:, BLANK] = 0.9
    for start, symbol in ((5, 0), (30, 1)):
        probabilities[start : start + 2, symbol], probabilities[start : start + 2, BLANK] = 0.99, 1e-3
    log_probs = np.log(probabilities).astype(np.float32)
    log_probs[:, 2] = -60
    spans = aligned([0, 2, 2, 1], [True] * 4, log_probs)
    assert (spans.starts[0], spans.starts[3]) == (5, 30)


def speech(labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random labels, the frames where they begin, and noisy log probabilities of them."""
    random = np.random.default_rng(labels)
    said = random.integers(0, BOUNDARY, labels).astype(np.int32)
    frames, starts = [], []
    for label in said.tolist():
        frames += [BLANK] * int(random.integers(1, 5))
        starts.append(len(frames))
        frames += [label] * int(random.integers(1, 3))
    probabilities = 0.5 * random.dirichlet(np.full(SYMBOLS, 0.3), len(frames))
    probabilities[np.arange(len(frames)), frames] += 0.5
    return said, np.array(starts), np.log(probabilities).astype(np.float32)


@pytest.mark.parametrize("bounds", [{}, {"band_labels": 1200}, {"band_labels": 1200, "history_bytes": 500_000}])
def test_a_narrow_band_and_a_short_memory_find_the_same_places(bounds) -> None:
    said, starts, log_probs = speech(6000)
    spans = aligned(said, np.zeros(len(said), np.bool_), log_probs, pieces=50, **bounds)
    assert np.abs(spans.starts - starts).max() <= 1
    assert (spans.starts < spans.ends).all()
    assert (spans.ends[:-1] <= spans.starts[1:]).all()


def test_a_text_that_the_band_never_reaches_does_not_fit() -> None:
    said, _, log_probs = speech(6000)
    end = len(log_probs) // 2
    assert aligned(said, np.zeros(len(said), np.bool_), log_probs[:end], pieces=30, band_labels=1200) is None
