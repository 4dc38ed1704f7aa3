"""Frame probabilities to starts, cuts and stops."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audiocpp.engines.endpointing import SpeechCut, SpeechRules, SpeechStart, SpeechStop, VoiceDetector, frames_of

RULES = SpeechRules(min_speech=3, min_silence=2)


def heard(probabilities, rules=RULES, *, levels=None, flush=True):
    detector = VoiceDetector(rules)
    events = detector.push(probabilities, levels or [0.0] * len(probabilities))
    return events + (detector.flush() if flush else [])


@pytest.mark.parametrize(
    ("probabilities", "events"),
    [
        ([0, 0, 1, 1, 1, 0, 0, 0], [SpeechStart(2), SpeechStop(5)]),
        ([1, 1, 0, 0, 0], []),  # too short to be speech
        ([1, 1, 0, 1, 0, 0], [SpeechStart(0), SpeechStop(4)]),  # a pause too short to end it counts as speech
        ([1, 1, 1, 0, 1, 1, 0, 0], [SpeechStart(0), SpeechStop(6)]),
        ([0.5, 0.5, 0.5, 0.4, 0.4, 0.4], [SpeechStart(0), SpeechStop(6)]),  # hysteresis: 0.4 does not end it
        ([0.4, 0.4, 0.4, 0.4], []),  # nor does it begin it
        ([1, 1, 1, 0.3, 0.9, 0, 0], [SpeechStart(0), SpeechStop(5)]),
        ([1, 1, 1, 0.3, 0.4, 0.4], [SpeechStart(0), SpeechStop(3)]),  # only the threshold takes a pause back
        ([1, 1, 1], [SpeechStart(0), SpeechStop(3)]),  # speech up to the end
        ([1, 1, 1, 0, 0, 1, 1, 1, 0, 0], [SpeechStart(0), SpeechStop(3), SpeechStart(5), SpeechStop(8)]),
        ([], []),
    ],
)
def test_stretches(probabilities, events) -> None:
    assert heard(probabilities) == events


def test_a_start_is_told_as_soon_as_speech_is_long_enough() -> None:
    assert heard([0, 1, 1, 1], flush=False) == [SpeechStart(1)]
    assert heard([0, 1, 1], flush=False) == []


def test_a_stop_is_told_as_soon_as_silence_is_long_enough() -> None:
    assert heard([1, 1, 1, 0, 0], flush=False) == [SpeechStart(0), SpeechStop(3)]
    assert heard([1, 1, 1, 0], flush=False) == [SpeechStart(0)]


def test_long_speech_is_cut_where_it_is_quietest_in_its_later_half() -> None:
    rules = SpeechRules(min_speech=3, min_silence=2, max_speech=20)
    levels = [-10.0] * 20
    levels[4] = -90
    levels[13:16] = [-60, -60, -60]
    assert heard([1] * 20, rules, levels=levels, flush=False) == [SpeechStart(0), SpeechCut(14)]


def test_a_cut_is_moved_behind_what_must_stay_together() -> None:
    detector = VoiceDetector(SpeechRules(min_speech=3, min_silence=2, max_speech=20))
    levels = [-10.0] * 20
    levels[11] = -60
    levels[16] = -40
    detector.push([1] * 19, levels[:19])
    detector.keep_undivided(15)
    (cut,) = detector.push([1], levels[19:])
    assert isinstance(cut, SpeechCut)
    assert 15 <= cut.at <= 17


def test_a_flush_ends_speech_and_later_frames_begin_anew() -> None:
    detector = VoiceDetector(RULES)
    detector.push([1, 1, 1, 1], [0.0] * 4)
    assert detector.in_speech
    assert detector.flush() == [SpeechStop(4)]
    assert not detector.in_speech
    assert detector.flush() == []
    assert detector.push([1, 1, 1], [0.0] * 3) == [SpeechStart(4)]


@given(
    probabilities=st.lists(st.floats(0, 1), max_size=200),
    max_speech=st.sampled_from([0, 8, 30]),
    min_silence=st.integers(0, 6),
    split=st.integers(0, 200),
)
def test_events_are_ordered_paired_bounded_and_independent_of_the_split(
    probabilities, max_speech, min_silence, split
) -> None:
    rules = SpeechRules(min_speech=3, min_silence=min_silence, max_speech=max_speech)
    levels = [-20 * value for value in probabilities]
    events = heard(probabilities, rules, levels=levels)
    at = [event.at for event in events]
    assert at == sorted(at)
    starts = sum(isinstance(event, SpeechStart) for event in events)
    assert starts == sum(isinstance(event, SpeechStop) for event in events)
    if max_speech:
        assert all(
            later.at - event.at <= max_speech for event, later in pairwise(events) if not isinstance(event, SpeechStop)
        )
    detector = VoiceDetector(rules)
    pieces = detector.push(probabilities[:split], levels[:split])
    pieces += detector.push(probabilities[split:], levels[split:])
    assert pieces + detector.flush() == events


def test_lengths_are_rounded_up_to_whole_frames() -> None:
    assert [frames_of(duration, 32) for duration in (0, 1, 32, 100, 250)] == [0, 1, 1, 4, 8]
