"""A live stream to text with a recogniser of whole utterances."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.recognition import PAUSE_S, RATE, WORD_S, FakeDecoder, FakeVoiceNetwork, silence, spoken

from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import Background, Data, End, Finalize, Lane, Revoke, Work
from audiocpp.engines.inline import run_inline
from audiocpp.engines.live_transcription import MAX_UTTERANCE_S, LiveTranscription
from audiocpp.engines.tasks import (
    AudioFormat,
    Finalized,
    Segment,
    SpeechAnswered,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TextPartial,
)
from audiocpp.engines.utterances import PAD_SAMPLES

CHUNK_BYTES = 4 * RATE // 10
EVENTS = (TextDelta, TextPartial, Segment, SpeechStarted, SpeechStopped, SpeechAnswered, Finalized)


def session(decoder=None, *, network=True, partials=False, endpoint_silence_ms=500):
    return LiveTranscription(
        decoder or FakeDecoder(),
        FakeVoiceNetwork() if network else None,
        AudioFormat(sample_rate=RATE),
        endpoint_silence_ms=endpoint_silence_ms,
        partials=partials,
    ).run()


def chunks(samples, size=CHUNK_BYTES):
    data = samples.tobytes()
    return [Data(data[at : at + size]) for at in range(0, len(data), size)]


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def text_of(events) -> str:
    return "".join(event.text for event in of(TextDelta, events))


def words(numbers) -> str:
    return " ".join(f"w{number}" for number in numbers)


def test_an_utterance_is_told_from_its_start_to_its_segment() -> None:
    events = list(run_inline(session(), chunks(np.concatenate((silence(1), spoken([1, 2, 3]), silence(2))))))
    (started,), (stopped,), (segment,) = of(SpeechStarted, events), of(SpeechStopped, events), of(Segment, events)
    assert text_of(events) == segment.text == "w1 w2 w3"
    assert events.index(started) < events.index(stopped) < events.index(segment) < events.index(SpeechAnswered())
    assert started.at == segment.start == pytest.approx(1, abs=0.04)
    assert stopped.at == segment.end


def test_words_are_sent_while_one_still_speaks() -> None:
    events = list(run_inline(session(), chunks(np.concatenate((spoken(range(1, 9)), silence(2))))))
    before_the_end = events[: events.index(*of(SpeechStopped, events))]
    assert len(text_of(before_the_end).split()) >= 4


def test_partials_follow_the_deltas_and_are_taken_back_at_the_end() -> None:
    events = list(run_inline(session(partials=True), chunks(np.concatenate((spoken(range(1, 9)), silence(2))))))
    shown = of(TextPartial, events)
    assert shown[-1].text == ""
    sent = ""
    for event in events:
        if isinstance(event, TextDelta):
            sent += event.text
        elif isinstance(event, TextPartial):
            assert words(range(1, 9)).startswith(sent + event.text)


def test_speech_up_to_the_last_sample_is_not_lost() -> None:
    samples = spoken([1, 2, 3], pause_s=0.096)
    assert text_of(run_inline(session(), chunks(samples[: -round(0.096 * RATE)]))) == "w1 w2 w3"


def test_finalize_answers_with_all_that_was_heard_and_the_session_goes_on() -> None:
    inputs = [*chunks(spoken([1, 2])), Finalize("a"), *chunks(spoken([3, 4])), Finalize("b"), Finalize("c")]
    events = list(run_inline(session(), inputs))
    a, b, c = (events.index(Finalized(token)) for token in "abc")
    assert text_of(events[:a]) == "w1 w2"
    assert text_of(events[a:b]) == " w3 w4"
    assert events[b:c] == [Finalized("b")]


def test_without_voice_activity_only_the_client_ends_an_utterance() -> None:
    inputs = [*chunks(np.concatenate((spoken([1]), silence(2), spoken([2])))), Finalize("a"), *chunks(spoken([3]))]
    events = list(run_inline(session(network=False), inputs))
    assert [segment.text for segment in of(Segment, events)] == ["w1 w2", "w3"]
    assert not of(SpeechStarted, events)
    assert not of(SpeechStopped, events)
    assert not of(SpeechAnswered, events)


def test_silence_gives_nothing() -> None:
    decoder = FakeDecoder()
    assert list(run_inline(session(decoder), chunks(silence(30)))) == []
    assert list(run_inline(session(decoder, network=False), chunks(silence(30)))) == []
    assert decoder.calls == []


@pytest.mark.parametrize("network", [True, False], ids=["vad", "no vad"])
def test_very_long_speech_is_cut_and_no_word_is_lost_or_doubled(network: bool) -> None:
    numbers = list(range(1, 120))
    decoder = FakeDecoder()
    events = list(run_inline(session(decoder, network=network), chunks(spoken(numbers))))
    assert text_of(events) == words(numbers)
    assert len(of(Segment, events)) >= 4
    assert all(earlier.end <= later.start for earlier, later in pairwise(of(Segment, events)))
    assert max(map(max, decoder.calls)) <= MAX_UTTERANCE_S * RATE + 2 * PAD_SAMPLES


def test_a_final_decode_revokes_the_guess_under_way_and_goes_first() -> None:
    run = session()
    inputs = iter([*chunks(np.concatenate((spoken(range(1, 9)), silence(1)))), End()])
    effects, answer = [], None
    while True:
        try:
            effect = run.send(answer)
        except StopIteration:
            break
        answer = None
        if isinstance(effect, Work):
            effects.append(effect)
            answer = effect.function(effect.rows, None)
        elif isinstance(effect, Background | Revoke):
            effects.append(effect)
            answer = True
        elif not isinstance(effect, EVENTS):
            answer = next(inputs)
    (final,) = [effect for effect in effects if isinstance(effect, Work) and effect.lane is Lane.LIVE_FINAL]
    (guess,) = of(Background, effects)
    assert guess.work.lane is Lane.LIVE_PARTIAL
    assert effects[effects.index(final) - 1] == Revoke(guess.tag)


@pytest.mark.parametrize("value", [99, 10_001, 0, -1])
def test_an_end_point_outside_the_range_is_refused(value: int) -> None:
    with pytest.raises(InvalidInput) as refusal:
        session(endpoint_silence_ms=value)
    assert refusal.value.param == "endpoint_silence_ms"


@settings(max_examples=25, deadline=None)
@given(
    groups=st.lists(st.tuples(st.integers(1, 12), st.floats(0, 3), st.booleans()), min_size=1, max_size=4),
    size=st.integers(900, 30_000),
)
def test_no_word_is_lost_or_doubled_for_any_pauses_pieces_and_finalizes(groups, size: int) -> None:
    inputs, said = [], []
    for count, pause_s, finalizes in groups:
        numbers = range(len(said) + 1, len(said) + 1 + count)
        said += numbers
        inputs += chunks(np.concatenate((spoken(numbers), silence(pause_s))), size)
        inputs += [Finalize("f")] if finalizes else []
    events = list(run_inline(session(partials=True), inputs))
    assert text_of(events) == words(said)
    assert [segment.index for segment in of(Segment, events)] == list(range(len(of(Segment, events))))


def but_for_timing(events):
    """What was said and when, and all of the text: how much of it is sent at a time depends on the time there is."""
    said = [event for event in events if not isinstance(event, TextDelta | TextPartial)]
    return said, text_of(events)


def split(data: bytes, sizes):
    """Pieces of the sizes, and the rest in one."""
    pieces = []
    for size in sizes:
        pieces.append(Data(data[:size]))
        data = data[size:]
    return [*pieces, Data(data)]


PIECE_BYTES = st.one_of(st.integers(1, 8), st.integers(600, 70_000), st.just(1 << 20), st.just(8 << 20))


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(st.tuples(st.integers(1, 25), st.floats(0.6, 3)), min_size=1, max_size=4),
    sizes=st.lists(PIECE_BYTES, max_size=60),
    network=st.booleans(),
)
def test_any_split_of_the_bytes_gives_the_same_events_but_for_timing(groups, sizes, network: bool) -> None:
    parts, said = [], 0
    for count, pause_s in groups:
        parts += [spoken(range(said + 1, said + 1 + count)), silence(pause_s)]
        said += count
    data = np.concatenate(parts).tobytes()
    whole = list(run_inline(session(network=network), [Data(data)]))
    pieces = list(run_inline(session(network=network, partials=True), split(data, sizes)))
    assert text_of(whole) == words(range(1, said + 1))
    longest_s = max(count * (WORD_S + PAUSE_S) for count, _ in groups) if network else len(data) / 4 / RATE
    if longest_s < MAX_UTTERANCE_S - 1:  # where longer speech is divided depends on what was sent of it by then
        assert but_for_timing(pieces) == but_for_timing(whole)
    else:
        assert text_of(pieces) == text_of(whole)
