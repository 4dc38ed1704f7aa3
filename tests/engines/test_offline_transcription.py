"""A recording to text with a recogniser of whole utterances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.recognition import RATE, FakeDecoder, FakeVoiceNetwork, silence, spoken

from audiocpp.engines.family import Data
from audiocpp.engines.inline import run_inline
from audiocpp.engines.offline_transcription import MAX_UTTERANCE_S, OfflineTranscription
from audiocpp.engines.tasks import AudioFormat, Segment, TextDelta
from audiocpp.engines.utterances import PAD_SAMPLES


def transcribed(samples, decoder=None, *, network=True, chunk=40_000):
    run = OfflineTranscription(
        decoder or FakeDecoder(), FakeVoiceNetwork() if network else None, AudioFormat(sample_rate=RATE)
    ).run()
    data = samples.tobytes()
    return list(run_inline(run, [Data(data[at : at + chunk]) for at in range(0, len(data), chunk)]))


def text_of(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def words(numbers) -> str:
    return " ".join(f"w{number}" for number in numbers)


def test_all_words_come_once_and_in_order_whatever_the_order_of_decoding() -> None:
    numbers = list(range(1, 260))
    decoder = FakeDecoder()
    events = transcribed(spoken(numbers), decoder)
    assert text_of(events) == words(numbers)
    assert len(decoder.calls) > 2


def test_rows_are_bounded_in_number_and_length() -> None:
    decoder = FakeDecoder()
    transcribed(spoken(range(1, 200)), decoder)
    assert max(len(call) for call in decoder.calls) <= decoder.max_rows
    assert max(map(max, decoder.calls)) <= MAX_UTTERANCE_S * RATE + 2 * PAD_SAMPLES


def test_segments_have_the_times_and_the_text_of_what_was_said() -> None:
    events = transcribed(np.concatenate((silence(3), spoken([5]), silence(3), spoken([6, 7]), silence(1))))
    first, second = [event for event in events if isinstance(event, Segment)]
    assert (first.index, first.text, second.index, second.text) == (0, "w5", 1, "w6 w7")
    assert first.start == pytest.approx(3, abs=0.04)
    assert second.start == pytest.approx(3 + 0.416 + 3, abs=0.04)
    assert text_of(events) == f"{first.text} {second.text}"


def test_no_time_lies_beyond_the_end_of_the_recording() -> None:
    samples = spoken([5], pause_s=0)[: RATE // 4 + 77]
    (segment,) = [event for event in transcribed(samples, network=False) if isinstance(event, Segment)]
    assert segment.end == len(samples) / RATE


@pytest.mark.parametrize("samples", [silence(0), silence(20)], ids=["nothing", "silence"])
@pytest.mark.parametrize("network", [True, False], ids=["vad", "no vad"])
def test_silence_gives_no_text_and_costs_no_decoding(samples, network: bool) -> None:
    decoder = FakeDecoder()
    assert transcribed(samples, decoder, network=network) == []
    assert decoder.calls == []


@settings(max_examples=25, deadline=None)
@given(
    groups=st.lists(st.tuples(st.integers(1, 12), st.floats(0, 4)), min_size=1, max_size=5),
    chunk=st.integers(1000, 200_000),
)
def test_no_word_is_lost_or_doubled_for_any_pauses_and_pieces(groups, chunk: int) -> None:
    parts, said = [], []
    for count, pause_s in groups:
        numbers = range(len(said) + 1, len(said) + 1 + count)
        said += numbers
        parts += [spoken(numbers), silence(pause_s)]
    assert text_of(transcribed(np.concatenate(parts), chunk=chunk)) == words(said)
