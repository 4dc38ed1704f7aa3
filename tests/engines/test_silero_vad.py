"""The `vad` task over a network that hears loudness: events, times, options."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.recognition import FakeVoiceNetwork

from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.families.silero_vad import SileroVad
from audiocpp.engines.family import Data, Finalize
from audiocpp.engines.inline import run_inline
from audiocpp.engines.tasks import AudioFormat, Finalized, Segment, SpeechStarted, SpeechStopped, TaskRequest

AUDIO = AudioFormat(sample_rate=16_000)
HANGOVER_S = 7 * 0.032
FRAME_S = 0.032
RINGING_S = 0.002  # of the resampler before a hard edge


def recording(*, sample_rate: int = 16_000, tail_s: float = 2.0) -> np.ndarray:
    """Loud from 1 to 2 s and from 4 to 4.5 s."""
    samples = np.zeros(round((4.5 + tail_s) * sample_rate), np.float32)
    for start_s, end_s in ((1, 2), (4, 4.5)):
        samples[round(start_s * sample_rate) : round(end_s * sample_rate)] = 0.1
    return samples


def heard(inputs, *, mode="offline", sample_rate=16_000, **options):
    request = TaskRequest(task="vad", mode=mode, audio=AudioFormat(sample_rate=sample_rate), options=options)
    return list(run_inline(SileroVad(FakeVoiceNetwork()).run(request), inputs))


def whole(samples) -> list[Data]:
    return [Data(samples.tobytes())]


@pytest.mark.parametrize("sample_rate", [8000, 16_000, 44_100, 48_000])
def test_times_are_seconds_of_the_callers_audio_at_any_rate(sample_rate: int) -> None:
    events = heard(whole(recording(sample_rate=sample_rate)), sample_rate=sample_rate, speech_pad_ms=0)
    assert [event.index for event in events] == [0, 1]
    for segment, start_s, end_s in zip(events, (1, 4), (2, 4.5), strict=True):
        assert segment.start == pytest.approx(start_s, abs=FRAME_S + RINGING_S)
        assert segment.end == pytest.approx(end_s + HANGOVER_S, abs=2 * FRAME_S)


def test_a_segment_ends_with_the_audio_at_the_latest() -> None:
    samples = recording(tail_s=0.05)
    assert heard(whole(samples))[-1].end == len(samples) / 16_000


def test_padding_widens_segments_but_not_into_each_other() -> None:
    bare = heard(whole(recording()), speech_pad_ms=0)
    padded = heard(whole(recording()), speech_pad_ms=100)
    assert [round(b.start - p.start, 3) for b, p in zip(bare, padded, strict=True)] == [0.1, 0.1]
    assert [round(p.end - b.end, 3) for b, p in zip(bare, padded, strict=True)] == [0.1, 0.1]
    wide = heard(whole(recording()), speech_pad_ms=10_000, min_silence_ms=1500)
    assert wide[0].start == 0
    assert wide[0].end <= wide[1].start


def test_short_speech_and_short_silence_follow_the_options() -> None:
    assert len(heard(whole(recording()), min_speech_ms=1000)) == 1
    assert len(heard(whole(recording()), min_silence_ms=3000)) == 1
    assert len(heard(whole(recording()), threshold=1.0)) == 2


def test_long_speech_is_divided_without_a_gap() -> None:
    events = heard(whole(np.full(16_000 * 10, 0.1, np.float32)), max_speech_s=3)
    assert len(events) >= 4
    assert all(event.end - event.start <= 3.1 for event in events)
    assert [event.start for event in events[1:]] == [event.end for event in events[:-1]]


def test_streaming_tells_starts_and_stops_as_they_happen() -> None:
    samples = recording().tobytes()
    second = 4 * 16_000
    events = heard([Data(samples[: second * 3]), Finalize("x"), Data(samples[second * 3 :])], mode="streaming")
    kinds = [type(event) for event in events]
    assert kinds == [SpeechStarted, SpeechStopped, Segment, Finalized, SpeechStarted, SpeechStopped, Segment]
    assert (events[0].at, events[1].at) == (events[2].start, events[2].end)


def test_a_finalize_ends_the_speech_in_progress() -> None:
    samples = recording().tobytes()
    events = heard([Data(samples[: 6 * 16_000]), Finalize("x")], mode="streaming")
    assert [type(event) for event in events] == [SpeechStarted, SpeechStopped, Segment, Finalized]
    assert events[2].end == pytest.approx(1.5, abs=FRAME_S)


@settings(max_examples=20, deadline=None)
@given(size=st.integers(500, 100_000), mode=st.sampled_from(["offline", "streaming"]))
def test_segments_do_not_depend_on_the_mode_or_the_split(size: int, mode: str) -> None:
    data = recording().tobytes()
    inputs = [Data(data[at : at + size]) for at in range(0, len(data), size)]
    segments = [event for event in heard(inputs, mode=mode) if isinstance(event, Segment)]
    assert segments == heard(whole(recording()))


@pytest.mark.parametrize("inputs", [[], [Data(b"")], [Data(bytes(4 * 16_000))]], ids=["nothing", "empty", "silence"])
@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_no_speech_gives_no_event(inputs, mode: str) -> None:
    assert heard(inputs, mode=mode) == []


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (TaskRequest(task="asr", audio=AUDIO), "task"),
        (TaskRequest(task="vad"), "audio"),
        (TaskRequest(task="vad", audio=AudioFormat(sample_rate=10)), "sample_rate"),
        (TaskRequest(task="vad", audio=AUDIO, options={"threshold": 1.5}), "threshold"),
        (
            TaskRequest(task="vad", audio=AUDIO, options={"max_speech_s": -1.0}),
            "max_speech_s",
        ),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_by_field(request_: TaskRequest, param: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        SileroVad(FakeVoiceNetwork()).run(request_)
    assert refusal.value.param == param
