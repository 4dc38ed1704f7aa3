"""The live session as a table: every input in every phase."""

import json
import math
from collections.abc import Callable

import pytest

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.errors import DaemonError, InsufficientMemory, InvalidRequest, ServerBusy, ShuttingDown, WorkerDied
from audiocpp.daemon.live.arrivals import Arrivals
from audiocpp.daemon.live.messages import (
    INPUTS,
    Audio,
    Close,
    Control,
    Effect,
    Finalize,
    Finish,
    Heard,
    Input,
    Push,
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


def session(*, partials: bool = False, words: bool = False, **limits: int) -> LiveSession:
    """An open session at 16 kHz PCM16, opened at second 100."""
    return LiveSession(
        id="s1",
        model="m",
        audio=AudioFormat(sample_rate=16_000, encoding="s16le"),
        limits=LiveIngest(**limits),
        opened_s=100.0,
        partials=partials,
        words=words,
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
    Heard: Heard(TextDelta("hi")),
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
    (Phase.OPEN, Heard): (["transcript.text.delta"], Phase.OPEN),
    (Phase.OPEN, RunEnded): ([DONE, "close 1000"], Phase.OVER),
    (Phase.OPEN, RunBroke): (["error", "close 1011"], Phase.OVER),
    (Phase.OPEN, Tick): ([], Phase.OPEN),
    (Phase.OPEN, Stop): (["finish"], Phase.ENDING),
    (Phase.ENDING, Audio): (["error"], Phase.ENDING),
    (Phase.ENDING, Control): (["error"], Phase.ENDING),
    (Phase.ENDING, Heard): (["transcript.text.delta"], Phase.ENDING),
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
