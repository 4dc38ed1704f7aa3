"""The live session as a table: every input in every phase."""

import json
import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.errors import DaemonError, InsufficientMemory, InvalidRequest, ServerBusy, ShuttingDown, WorkerDied
from audiocpp.daemon.live.arrivals import Arrivals
from audiocpp.daemon.live.messages import (
    INPUTS,
    Audio,
    Broken,
    Close,
    Control,
    Effect,
    Ended,
    Finalize,
    Finish,
    Heard,
    Input,
    Lost,
    Push,
    Restarted,
    RunBroke,
    RunEnded,
    Send,
    Stop,
    Tick,
)
from audiocpp.daemon.live.session import FLUSH_TIMEOUT_S, RULES, LiveSession, Phase
from audiocpp.engines.tasks import (
    AudioFormat,
    Finalized,
    Segment,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TextPartial,
    Word,
)

END = Control('{"type": "end"}')
SECOND = bytes(32_000)


def session(
    *, partials: bool = False, words: bool = False, resume_ms: int = 0, names_limits: bool = True, **limits: int
) -> LiveSession:
    """An open session at 16 kHz PCM16, opened at second 100."""
    return LiveSession(
        id="s1",
        model="m",
        audio=AudioFormat(sample_rate=16_000, encoding="s16le"),
        limits=LiveIngest(**limits),
        opened_s=100.0,
        partials=partials,
        words=words,
        resume_ms=resume_ms,
        names_limits=names_limits,
    )


def ending() -> LiveSession:
    live = session()
    live.handle(END, 100.0)
    return live


def over() -> LiveSession:
    live = session()
    live.handle(RunEnded(), 100.0)
    return live


PHASES: dict[Phase, Callable[[], LiveSession]] = {Phase.OPEN: session, Phase.ENDING: ending, Phase.OVER: over}
BROKE = RunBroke(WorkerDied("the worker died"))
EXAMPLES: dict[type[Input], Input] = {
    Audio: Audio(b"\1\2\3"),
    Control: Control('{"type": "finalize"}'),
    Ended: Ended(),
    Broken: Broken("invalid chunk size"),
    Lost: Lost(),
    Heard: Heard(TextDelta("hi")),
    Restarted: Restarted(),
    RunEnded: RunEnded(),
    RunBroke: BROKE,
    Tick: Tick(),
    Stop: Stop(),
}


def kinds(effects: list[Effect]) -> list[str]:
    """The effects as words: events by their type, closes by their code."""
    return [
        str(effect.event["type"])
        if isinstance(effect, Send)
        else f"close {effect.code}"
        if isinstance(effect, Close)
        else type(effect).__name__.lower()
        for effect in effects
    ]


DONE = "transcript.text.done"
TABLE: dict[tuple[Phase, type[Input]], tuple[list[str], Phase]] = {
    (Phase.OPEN, Audio): (["push"], Phase.OPEN),
    (Phase.OPEN, Control): (["finalize"], Phase.OPEN),
    (Phase.OPEN, Ended): (["finish"], Phase.ENDING),
    (Phase.OPEN, Broken): (["error", "close 1008"], Phase.OVER),
    (Phase.OPEN, Lost): (["close 1000"], Phase.OVER),
    (Phase.OPEN, Heard): (["transcript.text.delta"], Phase.OPEN),
    (Phase.OPEN, Restarted): ([], Phase.OPEN),
    (Phase.OPEN, RunEnded): ([DONE, "close 1000"], Phase.OVER),
    (Phase.OPEN, RunBroke): (["error", "close 1011"], Phase.OVER),
    (Phase.OPEN, Tick): ([], Phase.OPEN),
    (Phase.OPEN, Stop): (["finish"], Phase.ENDING),
    (Phase.ENDING, Audio): (["error"], Phase.ENDING),
    (Phase.ENDING, Control): (["error"], Phase.ENDING),
    (Phase.ENDING, Ended): ([], Phase.ENDING),
    (Phase.ENDING, Broken): ([], Phase.ENDING),
    (Phase.ENDING, Lost): (["close 1000"], Phase.OVER),
    (Phase.ENDING, Heard): (["transcript.text.delta"], Phase.ENDING),
    (Phase.ENDING, Restarted): ([], Phase.ENDING),
    (Phase.ENDING, RunEnded): ([DONE, "close 1000"], Phase.OVER),
    (Phase.ENDING, RunBroke): (["error", "close 1011"], Phase.OVER),
    (Phase.ENDING, Tick): ([], Phase.ENDING),
    (Phase.ENDING, Stop): ([], Phase.ENDING),
    **{(Phase.OVER, kind): ([], Phase.OVER) for kind in INPUTS},
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("kind", INPUTS)
def test_every_pair_of_phase_and_input(phase: Phase, kind: type[Input]) -> None:
    live = PHASES[phase]()
    assert live.phase is phase
    effects = live.handle(EXAMPLES[kind], 101.0)
    assert (kinds(effects), live.phase) == TABLE[phase, kind]


def test_the_rules_cover_every_pair_and_no_other() -> None:
    assert set(RULES) == {(phase, kind) for phase in Phase for kind in INPUTS}


def test_the_first_event_tells_id_rate_and_limits() -> None:
    event = session(idle_timeout_ms=5).created().event
    assert (event["type"], event["id"], event["model"], event["sample_rate"]) == ("session.created", "s1", "m", 16_000)
    assert event["limits"]["idle_timeout_ms"] == 5


@pytest.mark.parametrize("data", [b"\1", b"\1\2\3", SECOND])
def test_audio_goes_on_as_it_came(data: bytes) -> None:
    assert session().handle(Audio(data), 100.0) == [Push(data)]


def test_an_empty_frame_is_activity_and_nothing_else() -> None:
    live = session(idle_timeout_ms=1000)
    assert live.handle(Audio(b""), 100.9) == []
    assert live.deadline_s == 101.9


def test_finalize_is_counted_or_named() -> None:
    live = session()
    assert live.handle(Control('{"type": "finalize"}'), 100.0) == [Finalize("1")]
    assert live.handle(Control('{"type": "finalize", "id": "turn"}'), 100.0) == [Finalize("turn")]
    assert live.handle(Control('{"type": "finalize"}'), 100.0) == [Finalize("3")]


def test_end_finishes_the_run_once() -> None:
    live = session()
    assert live.handle(END, 100.0) == [Finish()]
    assert live.handle(END, 100.0) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[]",
        '"end"',
        '{"type": "dance"}',
        "{}",
        "[" * 10_000,
        r'{"type": "finalize", "id": "\ud800"}',
        f'{{"type": "finalize", "id": "{257 * "x"}"}}',
    ],
)
def test_a_control_message_that_is_not_understood_is_answered_and_survived(text: str) -> None:
    live = session()
    (answer,) = live.handle(Control(text), 100.0)
    assert isinstance(answer, Send)
    assert answer.event["error"]["code"] == "invalid_control"
    assert "finalize" in answer.event["error"]["message"]
    assert live.phase is Phase.OPEN


def test_any_frame_counts_as_activity() -> None:
    for heard in (Audio(b"\0\0"), Control('{"type": "keepalive"}'), Control("nonsense")):
        live = session(idle_timeout_ms=1000)
        live.handle(heard, 100.5)
        assert live.handle(Tick(), 101.4) == []
        assert kinds(live.handle(Tick(), 101.5)) == ["error", "close 1008"]


@pytest.mark.parametrize(
    ("limits", "heard", "at", "code", "message"),
    [
        ({"idle_timeout_ms": 1000}, Tick(), 101.0, 1008, "live request body stalled"),
        ({"total_timeout_ms": 1000}, Tick(), 101.0, 1008, "live request body exceeded its total deadline"),
        ({"max_body_bytes": 4}, Audio(b"12345"), 100.0, 1008, "live request body exceeded its maximum size"),
        ({"max_chunk_bytes": 4}, Audio(b"12345"), 100.0, 1009, "chunk size exceeds the maximum"),
    ],
)
def test_a_limit_ends_the_session_with_a_reason(
    limits: dict[str, int], heard: Input, at: float, code: int, message: str
) -> None:
    live = session(**limits)
    error, close = live.handle(heard, at)
    assert isinstance(error, Send)
    ((limit, value),) = limits.items()
    assert error.event["error"]["message"] == f"{message} ({limit} is {value})"
    assert close == Close(code, message)
    assert live.phase is Phase.OVER


def test_a_limit_of_zero_is_none() -> None:
    live = session(idle_timeout_ms=0, total_timeout_ms=0, max_body_bytes=0)
    assert live.deadline_s == math.inf
    assert live.handle(Audio(SECOND), 100.0) == [Push(SECOND)]


def test_a_client_that_waits_for_us_is_not_idle() -> None:
    live = session(idle_timeout_ms=1000)
    live.touch(100.9)
    assert live.handle(Tick(), 101.5) == []


def test_a_flush_without_progress_is_given_up() -> None:
    live = ending()
    live.handle(Heard(TextDelta("hi")), 130.0)
    assert live.deadline_s == 130.0 + FLUSH_TIMEOUT_S
    assert live.handle(Tick(), live.deadline_s - 0.1) == []
    assert kinds(live.handle(Tick(), live.deadline_s)) == ["error", "close 1011"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequest("x"), 1008),
        (ShuttingDown("x"), 1012),
        (ServerBusy("x"), 1013),
        (InsufficientMemory("x"), 1013),
        (WorkerDied("x"), 1011),
    ],
)
def test_a_failed_run_closes_with_the_code_of_its_cause(error: DaemonError, code: int) -> None:
    event, close = session().handle(RunBroke(error), 100.0)
    assert isinstance(event, Send)
    assert event.event == {"type": "error", "error": {"message": "x", "type": error.type, "code": error.code}}
    assert isinstance(close, Close)
    assert close.code == code


def test_stopping_answers_what_was_heard_and_says_restarting() -> None:
    live = session()
    assert live.handle(Stop(), 100.0) == [Finish()]
    assert live.handle(Audio(b"late"), 100.0) == []
    assert kinds(live.handle(RunEnded(), 100.0)) == [DONE, "close 1012"]


def test_stopping_after_the_end_still_says_restarting() -> None:
    live = ending()
    live.handle(Stop(), 100.0)
    assert kinds(live.handle(RunEnded(), 100.0)) == [DONE, "close 1012"]


def test_the_final_text_is_the_deltas_joined() -> None:
    live = session()
    for text in ("It was", " the best", "", " of times"):
        live.handle(Heard(TextDelta(text)), 100.0)
    done, _ = live.handle(RunEnded(), 100.0)
    assert isinstance(done, Send)
    assert done.event["text"] == "It was the best of times"


@pytest.mark.parametrize(
    ("event", "sent"),
    [
        (SpeechStarted(1.5), {"type": "speech.started", "at": 1.5}),
        (SpeechStopped(2.5), {"type": "speech.stopped", "at": 2.5}),
        (Finalized("7"), {"type": "transcript.finalized", "id": "7"}),
    ],
)
def test_an_event_of_the_run_is_passed_on(event: SpeechStarted | SpeechStopped | Finalized, sent: object) -> None:
    assert session().handle(Heard(event), 100.0) == [Send(sent)]  # type: ignore[arg-type]


def test_an_empty_delta_is_not_sent() -> None:
    assert session().handle(Heard(TextDelta("")), 100.0) == []


def test_partials_are_sent_when_asked_for() -> None:
    heard = Heard(TextPartial("gue"))
    assert session().handle(heard, 100.0) == []
    assert session(partials=True).handle(heard, 100.0) == [Send({"type": "transcript.text.partial", "text": "gue"})]


@pytest.mark.parametrize("words", [True, False])
def test_a_segment_has_words_when_asked_for(words: bool) -> None:
    segment = Segment(
        index=3, start=1.0, end=2.0, text="hi", confidence=0.5, words=[Word(word="hi", start=1.0, end=2.0)]
    )
    (sent,) = session(words=words).handle(Heard(segment), 100.0)
    assert isinstance(sent, Send)
    plain = {"type": "transcript.segment", "id": 3, "start": 1.0, "end": 2.0, "text": "hi", "confidence": 0.5}
    listed = {"words": [{"word": "hi", "start": 1.0, "end": 2.0, "confidence": None}]}
    assert json.loads(json.dumps(sent.event)) == (plain | listed if words else plain)


def test_the_timing_counts_from_the_audio() -> None:
    live = session()
    for second in range(3):
        live.handle(Audio(SECOND), 110.0 + second)
    live.handle(Heard(TextDelta("hi")), 112.25)
    live.handle(Heard(Segment(index=0, start=0.2, end=1.5, text="hi")), 112.5)
    done, _ = live.handle(RunEnded(), 113.0)
    assert isinstance(done, Send)
    # The second second, in which the speech ends, arrived at 111.0.
    assert done.event["timing"] == {"ttft_ms": 2250.0, "audio_ms": 3000.0, "final_latency_ms": 1500.0}


def test_a_session_without_speech_has_no_latencies() -> None:
    done, _ = session().handle(RunEnded(), 113.0)
    assert isinstance(done, Send)
    assert done.event["timing"] == {"ttft_ms": None, "audio_ms": 0.0, "final_latency_ms": None}


def test_arrivals_forget_what_is_long_ago() -> None:
    arrivals = Arrivals()
    for piece in range(10_000):
        arrivals.add(piece * 0.02, 50.0 + piece * 0.02)
    assert arrivals.first_s == 50.0
    assert arrivals.latency_ms(1.0, 300.0) is None
    assert arrivals.latency_ms(190.0, 50.0 + 190.5) == pytest.approx(500.0)


def test_the_reference_words_of_a_limit_stand_alone_where_asked_for() -> None:
    error, _ = session(names_limits=False, idle_timeout_ms=1000).handle(Tick(), 101.0)
    assert isinstance(error, Send)
    assert error.event["error"]["message"] == "live request body stalled"
    assert error.event["error"]["param"] == "idle_timeout_ms"


def test_framing_counts_against_the_size_of_the_body_and_not_as_audio() -> None:
    live = session(max_body_bytes=10)
    assert live.handle(Audio(b"12", framing_bytes=6), 100.0) == [Push(b"12")]
    assert kinds(live.handle(Audio(b"12", framing_bytes=6), 100.0)) == ["error", "close 1008"]


def test_a_frame_that_comes_in_pieces_is_measured_whole() -> None:
    live = session(max_chunk_bytes=4)
    assert live.handle(Audio(b"123", ends=False), 100.0) == [Push(b"123")]
    assert live.handle(Audio(b"4", ends=True), 100.0) == [Push(b"4")]
    assert live.handle(Audio(b"123", ends=False), 100.0) == [Push(b"123")]
    assert kinds(live.handle(Audio(b"45", ends=False), 100.0)) == ["error", "close 1009"]


def test_a_very_long_control_message_is_not_looked_at() -> None:
    (answer,) = session().handle(Control('{"type": "end"' + 5000 * " " + "}"), 100.0)
    assert isinstance(answer, Send)
    assert answer.event["error"]["code"] == "invalid_control"


def lost(at: float = 101.0, **limits: int) -> LiveSession:
    """A session that has heard a second and may be resumed until ten seconds after `at`."""
    live = session(resume_ms=10_000, **limits)
    live.handle(Audio(SECOND), 100.0)
    assert live.handle(Lost(), at) == []
    return live


def test_a_lost_client_may_come_back_in_time() -> None:
    live = lost(idle_timeout_ms=1)
    assert live.deadline_s == 111.0
    assert live.handle(Tick(), 110.9) == []
    event = live.resume(None, "told", 110.9).event
    assert (event["type"], event["id"], event["resumed"], event["next_sample"], event["text"]) == (
        "session.created",
        "s1",
        True,
        16_000,
        "told",
    )
    assert live.handle(Audio(b"\1\2"), 110.9) == [Push(b"\1\2")]


def test_a_lost_client_that_does_not_come_back_is_forgotten_without_a_word() -> None:
    live = lost()
    assert kinds(live.handle(Tick(), 111.0)) == ["close 1000"]
    assert live.is_over


@pytest.mark.parametrize("resume_ms", [0, 10_000])
def test_a_lost_client_that_sent_nothing_or_may_not_come_back_is_forgotten_at_once(resume_ms: int) -> None:
    live = session(resume_ms=resume_ms)
    if not resume_ms:
        live.handle(Audio(SECOND), 100.0)
    assert kinds(live.handle(Lost(), 101.0)) == ["close 1000"]


def test_the_total_deadline_also_holds_for_a_lost_client() -> None:
    live = lost(total_timeout_ms=5000)
    assert live.deadline_s == 105.0
    assert kinds(live.handle(Tick(), 105.0)) == ["close 1000"]


def test_stopping_forgets_a_lost_client() -> None:
    assert kinds(lost().handle(Stop(), 102.0)) == ["close 1012"]


def test_the_model_goes_on_answering_while_the_client_is_lost() -> None:
    live = lost()
    assert kinds(live.handle(Heard(TextDelta("hi")), 102.0)) == ["transcript.text.delta"]
    live = session(resume_ms=10_000)
    live.handle(Audio(SECOND), 100.0)
    live.handle(END, 100.0)
    live.handle(Lost(), 101.0)
    assert kinds(live.handle(RunEnded(), 102.0)) == [DONE, "close 1000"]


def test_a_lost_client_whose_audio_has_ended_is_forgotten_in_time_too() -> None:
    live = session(resume_ms=10_000)
    live.handle(Audio(SECOND), 100.0)
    live.handle(END, 100.0)
    live.handle(Lost(), 101.0)
    assert live.handle(Tick(), 110.9) == []
    assert kinds(live.handle(Tick(), 111.0)) == ["close 1000"]


@pytest.mark.parametrize(
    ("heard", "offset", "next_sample", "resent", "pushed"),
    [
        (b"abcdef", None, 3, b"ghij", b"ghij"),
        (b"abcdef", 3, 3, b"ghij", b"ghij"),
        (b"abcdef", 1, 1, b"cdefghij", b"ghij"),  # sent once more
        (b"abcdef", 0, 0, b"abcdefghij", b"ghij"),
        (b"abcde", None, 2, b"efghij", b"fghij"),  # half a sample had come
        (b"abcde", 5, 2, b"efghij", b"fghij"),  # what the client has sent further never came
    ],
)
def test_what_had_come_before_is_dropped_when_it_comes_again(
    heard: bytes, offset: int | None, next_sample: int, resent: bytes, pushed: bytes
) -> None:
    live = session(resume_ms=10_000)
    live.handle(Audio(heard), 100.0)
    live.handle(Lost(), 101.0)
    assert live.resume(offset, "", 102.0).event["next_sample"] == next_sample
    assert live.handle(Audio(resent), 102.0) == [Push(pushed)]


def test_a_frame_that_was_cut_by_the_loss_does_not_count_for_the_next_one() -> None:
    live = session(resume_ms=10_000, max_chunk_bytes=4)
    live.handle(Audio(b"abcd", ends=False), 100.0)
    live.handle(Lost(), 101.0)
    live.resume(None, "", 102.0)
    assert live.handle(Audio(b"efgh"), 102.0) == [Push(b"efgh")]


@given(st.data())
def test_any_number_of_broken_connections_loses_and_doubles_no_sample(data: st.DataObject) -> None:
    """The client goes on somewhere at or before the sample that it is told to go on with, in pieces of any size."""
    recording = bytes(range(1, 121))
    live = session(resume_ms=10_000)
    heard, at = b"", 0
    for _ in range(data.draw(st.integers(0, 6), label="breaks")):
        until = data.draw(st.integers(at, len(recording)), label="sent until")
        heard += pushed(live, recording[at:until], data)
        if not heard or live.handle(Lost(), 101.0):
            return
        wanted = data.draw(st.none() | st.integers(0, len(recording) // 2 + 5), label="offset")
        at = 2 * int(live.resume(wanted, "", 102.0).event["next_sample"])
    heard += pushed(live, recording[at:], data)
    assert heard == recording


def pushed(live: LiveSession, sent: bytes, data: st.DataObject) -> bytes:
    """What reaches the run of `sent`, split anywhere."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    effects = [live.handle(Audio(sent[a:b]), 101.0) for a, b in pairwise([0, *cuts, len(sent)])]
    return b"".join(effect.data for some in effects for effect in some if isinstance(effect, Push))


@given(sizes=st.lists(st.integers(1, 1 << 16), min_size=1, max_size=50))
def test_any_split_of_the_audio_gives_the_same_session(sizes: list[int]) -> None:
    recording = bytes(sum(sizes))
    live, at, heard = session(), 0, b""
    for size in sizes:
        for effect in live.handle(Audio(recording[at : at + size], ends=size % 2 == 0), 100.0):
            assert isinstance(effect, Push)
            heard += effect.data
        at += size
    assert heard == recording
    whole = session()
    whole.handle(Audio(recording), 100.0)
    assert kinds(live.handle(END, 100.0)) == kinds(whole.handle(END, 100.0))
    assert live.handle(RunEnded(), 100.0) == whole.handle(RunEnded(), 100.0)
