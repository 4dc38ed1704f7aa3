"""The Realtime session as a table, and the words in which OpenAI's clients speak with it."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.config.load import parse_config
from audiocpp.daemon.entries import build_registry
from audiocpp.daemon.errors import InsufficientMemory, WorkerDied
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
    Move,
    Push,
    Restart,
    Restarted,
    RunBroke,
    RunEnded,
    Send,
    Stop,
    Tick,
)
from audiocpp.daemon.live.realtime import RULES, RealtimeSession
from audiocpp.daemon.live.realtime_config import RealtimeConfig, Shape
from audiocpp.daemon.live.session import FLUSH_TIMEOUT_S, Phase
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.tasks import (
    AudioFormat,
    Finalized,
    Segment,
    SpeechAnswered,
    SpeechStarted,
    SpeechStopped,
    TaskEvent,
    TextDelta,
)

REGISTRY = build_registry(
    parse_config(
        {
            "models": [
                {"id": "live", "family": "moonshine_asr", "mode": "streaming", "aliases": ["gpt-4o-transcribe"]},
                {"id": "other", "family": "moonshine_asr", "mode": "streaming"},
                {"id": "files", "family": "moonshine_asr"},
            ]
        },
        folder=Path(),
    ),
    Catalog.load(),
)
SECOND = bytes(48_000)
TEXT = "conversation.item.input_audio_transcription"
ADDED = ["conversation.item.added", "conversation.item.done"]


class Client:
    """Speaks to a session and keeps what it is told."""

    def __init__(self, *, model: str | None = "live", shape: Shape = "ga", detects: bool = True, **limits: int) -> None:
        entry = REGISTRY.find(model) if model else None
        self.told: list[dict[str, Any]] = []
        self.session = RealtimeSession(
            id="sess_1",
            config=RealtimeConfig(entry=entry, detects=detects),
            registry=REGISTRY,
            limits=LiveIngest(**limits),
            opened_s=100.0,
            shape=shape,
        )
        self.first = self.session.created().event

    def handle(self, heard: Input, now_s: float = 100.0) -> list[Effect]:
        effects = self.session.handle(heard, now_s)
        self.told += [dict(effect.event) for effect in effects if isinstance(effect, Send)]
        return effects

    def say(self, kind: str, **more: Any) -> list[Effect]:
        return self.handle(Control(json.dumps({"type": kind, **more})))

    def append(self, data: bytes) -> list[Effect]:
        return self.say("input_audio_buffer.append", audio=base64.b64encode(data).decode())

    def update(self, **session: Any) -> list[Effect]:
        return self.say("session.update", session={"type": "transcription", **session})

    def hear(self, *events: TaskEvent) -> list[str]:
        """What the client is told of events of the run."""
        return [kind for event in events for kind in kinds(self.handle(Heard(event)))]


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


def opened() -> Client:
    return Client()


def ending() -> Client:
    client = Client()
    client.handle(Stop())
    return client


def over() -> Client:
    client = Client()
    client.handle(Lost())
    return client


PHASES: dict[Phase, Callable[[], Client]] = {Phase.OPEN: opened, Phase.ENDING: ending, Phase.OVER: over}
EXAMPLES: dict[type[Input], Input] = {
    Audio: Audio(b"\1\2"),
    Control: Control('{"type": "input_audio_buffer.clear"}'),
    Ended: Ended(),
    Broken: Broken("x"),
    Lost: Lost(),
    Heard: Heard(SpeechStarted(1.0)),
    RunEnded: RunEnded(),
    RunBroke: RunBroke(WorkerDied("the worker died")),
    Tick: Tick(),
    Stop: Stop(),
}
TABLE: dict[tuple[Phase, type[Input]], tuple[list[str], Phase]] = {
    (Phase.OPEN, Audio): (["error"], Phase.OPEN),
    (Phase.OPEN, Control): (["input_audio_buffer.cleared"], Phase.OPEN),
    (Phase.OPEN, Ended): ([], Phase.OPEN),
    (Phase.OPEN, Broken): ([], Phase.OPEN),
    (Phase.OPEN, Lost): (["close 1008"], Phase.OVER),
    (Phase.OPEN, Heard): (["input_audio_buffer.speech_started"], Phase.OPEN),
    (Phase.OPEN, RunEnded): ([], Phase.OPEN),
    (Phase.OPEN, RunBroke): (["error", "close 1011"], Phase.OVER),
    (Phase.OPEN, Tick): ([], Phase.OPEN),
    (Phase.OPEN, Stop): (["finish"], Phase.ENDING),
    (Phase.ENDING, Audio): ([], Phase.ENDING),
    (Phase.ENDING, Control): ([], Phase.ENDING),
    (Phase.ENDING, Ended): ([], Phase.ENDING),
    (Phase.ENDING, Broken): ([], Phase.ENDING),
    (Phase.ENDING, Lost): (["close 1008"], Phase.OVER),
    (Phase.ENDING, Heard): (["input_audio_buffer.speech_started"], Phase.ENDING),
    (Phase.ENDING, RunEnded): (["close 1012"], Phase.OVER),
    (Phase.ENDING, RunBroke): (["error", "close 1011"], Phase.OVER),
    (Phase.ENDING, Tick): ([], Phase.ENDING),
    (Phase.ENDING, Stop): ([], Phase.ENDING),
    **{(Phase.OVER, kind): ([], Phase.OVER) for kind in EXAMPLES},
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_pair_of_phase_and_input(phase: Phase, kind: type[Input]) -> None:
    client = PHASES[phase]()
    assert client.session.phase is phase
    effects = client.handle(EXAMPLES[kind], 101.0)
    assert (kinds(effects), client.session.phase) == TABLE[phase, kind]


def test_the_rules_cover_every_pair_and_no_other() -> None:
    assert set(RULES) == {(phase, kind) for phase in Phase for kind in INPUTS}
    assert set(EXAMPLES) == set(INPUTS) - {Restarted}


def test_the_first_event_tells_the_configuration() -> None:
    session = Client().first["session"]
    assert Client().first["type"] == "session.created"
    assert (session["type"], session["id"]) == ("transcription", "sess_1")
    heard = session["audio"]["input"]
    assert heard["format"] == {"type": "audio/pcm", "rate": 24_000}
    assert heard["transcription"]["model"] == "live"
    assert heard["turn_detection"] == {"type": "server_vad", "silence_duration_ms": 500}


def test_a_client_of_the_beta_is_told_in_its_shape() -> None:
    first = Client(shape="beta").first
    assert first["type"] == "transcription_session.created"
    assert first["session"]["input_audio_format"] == "pcm16"
    assert first["session"]["input_audio_transcription"]["model"] == "live"


def test_every_event_has_an_id_of_its_own() -> None:
    client = Client()
    for _ in range(5):
        client.say("input_audio_buffer.clear")
    ids = [event["event_id"] for event in client.told]
    assert len(set(ids)) == 5


def test_an_utterance_is_told_from_its_start_to_its_text() -> None:
    client = Client()
    assert client.append(SECOND) == [Push(SECOND)]
    assert client.hear(SpeechStarted(0.25)) == ["input_audio_buffer.speech_started"]
    assert client.hear(TextDelta(" It was")) == [f"{TEXT}.delta"]
    assert client.hear(SpeechStopped(0.75)) == [
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        *ADDED,
    ]
    assert client.hear(TextDelta(" the best"), Segment(index=0, start=0.2, end=0.7)) == [f"{TEXT}.delta"]
    assert client.hear(SpeechAnswered()) == [f"{TEXT}.completed"]
    started, first, stopped, committed, added, _, second, completed = client.told
    assert (started["audio_start_ms"], stopped["audio_end_ms"]) == (250, 750)
    assert {event["item_id"] for event in (started, first, stopped, committed, second, completed)} == {
        added["item"]["id"]
    }
    assert first["delta"] + second["delta"] == completed["transcript"] == "It was the best"
    assert completed["usage"] == {"type": "duration", "seconds": 0.5}
    assert (first["content_index"], completed["content_index"]) == (0, 0)


def test_items_name_the_one_before() -> None:
    client = Client()
    for at in (1.0, 3.0):
        client.hear(SpeechStarted(at), SpeechStopped(at + 1), SpeechAnswered())
    committed = [event for event in client.told if event["type"] == "input_audio_buffer.committed"]
    assert [event["previous_item_id"] for event in committed] == [None, committed[0]["item_id"]]


def test_speech_in_which_nothing_was_understood_is_completed_too() -> None:
    client = Client()
    client.hear(SpeechStarted(1.0), SpeechStopped(2.0), SpeechAnswered())
    assert (client.told[-1]["type"], client.told[-1]["transcript"]) == (f"{TEXT}.completed", "")


def test_items_of_the_beta_are_created() -> None:
    client = Client(shape="beta")
    assert "conversation.item.created" in client.hear(SpeechStarted(1.0), SpeechStopped(2.0))


def test_without_turn_detection_the_client_commits() -> None:
    client = Client(detects=False)
    client.append(SECOND)
    assert client.hear(TextDelta("Hello")) == [f"{TEXT}.delta"]
    effects = client.say("input_audio_buffer.commit")
    assert kinds(effects) == ["input_audio_buffer.committed", *ADDED, "finalize"]
    client.append(SECOND)  # of the next item
    assert client.hear(TextDelta(" there"), Finalized("1")) == [f"{TEXT}.delta", f"{TEXT}.completed"]
    assert client.told[-1]["transcript"] == "Hello there"
    assert client.told[-1]["usage"]["seconds"] == 1.0
    client.say("input_audio_buffer.commit")
    assert client.hear(TextDelta(" you"), Finalized("2"))[-1] == f"{TEXT}.completed"
    assert client.told[-1]["transcript"] == "you"
    assert client.told[-1]["item_id"] != client.told[0]["item_id"]


def test_a_commit_within_speech_ends_it() -> None:
    client = Client()
    client.append(SECOND)
    client.hear(SpeechStarted(0.1))
    assert client.say("input_audio_buffer.commit") == [Finalize("1")]
    assert client.hear(SpeechStopped(0.9), TextDelta("Hi"), SpeechAnswered(), Finalized("1"))[-1] == f"{TEXT}.completed"
    assert sum(event["type"] == f"{TEXT}.completed" for event in client.told) == 1


def test_a_commit_without_speech_is_an_item_without_text() -> None:
    client = Client()
    client.append(SECOND)
    client.say("input_audio_buffer.commit")
    assert client.hear(Finalized("1")) == ["input_audio_buffer.committed", *ADDED, f"{TEXT}.completed"]
    assert client.told[-1]["transcript"] == ""


@pytest.mark.parametrize("detects", [True, False])
def test_there_must_be_audio_to_commit(detects: bool) -> None:
    client = Client(detects=detects)
    for _ in range(2):
        client.say("input_audio_buffer.commit", event_id="e1")
        assert client.told[-1]["error"]["code"] == "input_audio_buffer_commit_empty"
        assert client.told[-1]["error"]["event_id"] == "e1"
        client.append(SECOND)
        client.say("input_audio_buffer.commit")


def test_clearing_begins_another_run_at_the_same_time() -> None:
    client = Client()
    client.append(SECOND)
    client.hear(SpeechStarted(0.5))
    effects = client.say("input_audio_buffer.clear")
    assert kinds(effects) == ["input_audio_buffer.cleared", "restart"]
    assert client.session.settled
    assert client.hear(TextDelta("x"), SpeechStopped(0.9), SpeechAnswered()) == []
    client.append(SECOND)
    client.handle(Restarted())
    client.hear(SpeechStarted(0.25))
    assert client.told[-1]["audio_start_ms"] == 1250


@pytest.mark.parametrize("detects", [True, False])
def test_clearing_leaves_what_was_committed(detects: bool) -> None:
    client = Client(detects=detects)
    client.append(SECOND)
    client.hear(*([SpeechStarted(0.1)] if detects else []))
    client.say("input_audio_buffer.commit")
    client.append(SECOND)
    client.say("input_audio_buffer.clear")
    assert not client.session.settled
    spoken = [SpeechStopped(0.9), TextDelta("Hi"), SpeechAnswered()] if detects else [TextDelta("Hi")]
    client.hear(*spoken, Finalized("1"))
    assert client.session.settled is True
    assert client.told[-1]["transcript"] == "Hi"
    assert client.hear(TextDelta("dropped"), SpeechStarted(1.5)) == []


def test_clearing_nothing_changes_nothing() -> None:
    assert kinds(Client().say("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]


def test_an_update_before_any_audio_begins_another_run() -> None:
    client = Client()
    updated, restart = client.update(audio={"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}})
    assert isinstance(updated, Send)
    assert isinstance(restart, Restart)
    assert updated.event["session"]["audio"]["input"]["turn_detection"] is None
    assert restart.request.audio == AudioFormat(sample_rate=8000, encoding="mulaw")
    assert restart.request.options == {"vad": "off"}
    assert client.session.settled


def test_an_update_after_audio_lets_the_run_answer_first() -> None:
    client = Client()
    client.append(SECOND)
    client.hear(SpeechStarted(0.1))
    assert kinds(client.update(audio={"input": {"turn_detection": None}})) == ["session.updated", "finish", "restart"]
    assert not client.session.settled
    client.append(SECOND)
    client.hear(SpeechStopped(1.0), TextDelta("Hi"), SpeechAnswered())
    assert client.told[-1]["transcript"] == "Hi"
    client.handle(RunEnded())
    assert client.session.settled
    client.handle(Restarted())
    client.say("input_audio_buffer.commit")
    assert client.hear(TextDelta(" you"), Finalized("1"))[-1] == f"{TEXT}.completed"
    assert (client.told[-1]["transcript"], client.told[-1]["usage"]["seconds"]) == ("you", 1.0)


def test_an_update_commits_what_the_client_has_not() -> None:
    client = Client(detects=False)
    client.append(SECOND)
    effects = client.update(audio={"input": {"format": "pcm16", "turn_detection": {"type": "server_vad"}}})
    assert kinds(effects) == ["session.updated", "input_audio_buffer.committed", *ADDED, "finish", "restart"]
    client.hear(TextDelta("Hi"))
    assert kinds(client.handle(RunEnded())) == [f"{TEXT}.completed"]


def test_an_update_that_the_model_need_not_know_of_goes_on() -> None:
    client = Client()
    client.append(SECOND)
    assert kinds(client.update(audio={"input": {"transcription": {"model": "gpt-4o-transcribe"}}})) == [
        "session.updated"
    ]


def test_another_model_is_gone_to() -> None:
    client = Client()
    _, move = client.update(audio={"input": {"transcription": {"model": "other"}}})
    assert isinstance(move, Move)
    assert move.entry is REGISTRY.find("other")


def test_a_session_without_a_model_waits_for_one() -> None:
    client = Client(model=None)
    client.append(SECOND)
    assert "audio.input.transcription.model" in client.told[-1]["error"]["message"]
    client.update(audio={"input": {"format": {"type": "audio/pcm", "rate": 16_000}}})
    updated, move = client.update(audio={"input": {"transcription": {"model": "live"}}})
    assert isinstance(updated, Send)
    assert isinstance(move, Move)
    assert move.request.audio == AudioFormat(sample_rate=16_000, encoding="s16le")


BETA = {
    "input_audio_format": "g711_alaw",
    "input_audio_transcription": {"model": "live", "language": "en-US", "prompt": "names"},
    "turn_detection": {"type": "server_vad", "silence_duration_ms": 300, "prefix_padding_ms": 300, "threshold": 0.5},
    "input_audio_noise_reduction": None,
}
GA = {
    "type": "transcription",
    "audio": {
        "input": {
            "format": {"type": "audio/pcma"},
            "transcription": {"model": "live", "language": "en-US", "prompt": "names"},
            "turn_detection": BETA["turn_detection"],
            "noise_reduction": None,
        }
    },
}


@pytest.mark.parametrize(
    ("kind", "session", "answer"),
    [
        ("session.update", GA, "session.updated"),
        ("session.update", BETA, "session.updated"),
        ("transcription_session.update", BETA, "transcription_session.updated"),
    ],
)
def test_both_shapes_say_the_same(kind: str, session: dict[str, Any], answer: str) -> None:
    client = Client()
    updated, restart = client.say(kind, session=session)
    assert isinstance(updated, Send)
    assert isinstance(restart, Restart)
    assert updated.event["type"] == answer
    request = restart.request
    assert request.audio == AudioFormat(sample_rate=8000, encoding="alaw")
    assert (request.language, request.prompt, request.options) == ("en", "names", {"endpoint_silence_ms": 300})


def test_what_a_session_was_told_of_itself_can_be_sent_back() -> None:
    client = Client()
    assert "error" not in kinds(client.say("session.update", session=client.first["session"]))


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"audio": {"input": {"noise_reduction": {"type": "near_field"}}}}, "session.audio.input.noise_reduction"),
        ({"input_audio_noise_reduction": {"type": "far_field"}}, "session.input_audio_noise_reduction"),
        (
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}},
            "session.audio.input.turn_detection.type",
        ),
        ({"turn_detection": {"type": "server_vad", "threshold": 0.9}}, "session.turn_detection.threshold"),
        ({"turn_detection": {"create_response": True}}, "session.turn_detection.create_response"),
        ({"turn_detection": {"idle_timeout_ms": 6000}}, "session.turn_detection.idle_timeout_ms"),
        ({"audio": {"input": {"transcription": None}}}, "session.audio.input.transcription"),
        ({"input_audio_transcription": {"keywords": ["x"]}}, "session.input_audio_transcription.keywords"),
        ({"include": ["item.input_audio_transcription.logprobs"]}, "session.include"),
        ({"audio": {"output": {"voice": "alloy"}}}, "session.audio.output"),
        ({"instructions": "Be brief."}, "session.instructions"),
        ({"tools": [{}]}, "session.tools"),
    ],
)
def test_a_setting_that_is_not_supported_is_named_and_the_others_hold(session: dict[str, Any], param: str) -> None:
    client = Client()
    both = {**session, "input_audio_format": "g711_ulaw"}
    effects = client.say("session.update", session=both, event_id="mine")
    assert kinds(effects) == ["session.updated", "error", "restart"]
    error = client.told[-1]["error"]
    assert (error["code"], error["param"], error["event_id"]) == ("unsupported", param, "mine")
    assert param in error["message"]


@pytest.mark.parametrize(
    ("session", "param"),
    [
        (None, "session"),
        ([], "session"),
        ({"type": "realtime"}, "session.type"),
        ({"audio": 1}, "session.audio"),
        ({"audio": {"input": []}}, "session.audio.input"),
        ({"input_audio_format": "mp3"}, "session.input_audio_format"),
        ({"input_audio_format": 16}, "session.input_audio_format"),
        ({"audio": {"input": {"format": {"type": "audio/opus"}}}}, "session.audio.input.format"),
        ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 999}}}}, "session.audio.input.format.rate"),
        ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": "24k"}}}}, "session.audio.input.format.rate"),
        ({"audio": {"input": {"format": {"type": "audio/pcmu", "rate": 24000}}}}, "session.audio.input.format.rate"),
        ({"input_audio_transcription": {"model": 1}}, "session.input_audio_transcription.model"),
        ({"input_audio_transcription": {"model": "nobody"}}, "model"),
        ({"input_audio_transcription": {"model": "files"}}, "model"),
        ({"input_audio_transcription": {"language": "fr"}}, "language"),
        ({"turn_detection": "server_vad"}, "session.turn_detection"),
        ({"turn_detection": {"silence_duration_ms": "long"}}, "session.turn_detection.silence_duration_ms"),
        ({"turn_detection": {"silence_duration_ms": 50}}, "endpoint_silence_ms"),
    ],
)
def test_a_wrong_update_is_refused_whole(session: Any, param: str) -> None:
    client = Client()
    before = client.session.config
    assert kinds(client.say("session.update", session=session)) == ["error"]
    assert client.told[-1]["error"]["param"] == param
    assert client.session.config is before


@pytest.mark.parametrize("audio", [None, 5, "A", "AAA*", "A===", ["x"]])
def test_audio_that_is_no_base64_is_refused_and_survived(audio: Any) -> None:
    client = Client()
    assert kinds(client.say("input_audio_buffer.append", audio=audio)) == ["error"]
    assert client.told[-1]["error"]["param"] == "audio"
    assert client.append(b"abc") == [Push(b"abc")]


def test_half_samples_are_joined_by_the_run() -> None:
    client = Client()
    assert client.say("input_audio_buffer.append", audio="AAAA") == [Push(bytes(3))]
    assert client.say("input_audio_buffer.append", audio="AA") == [Push(bytes(1))]
    assert client.say("input_audio_buffer.append", audio="") == []


@pytest.mark.parametrize(
    "kind",
    [
        "response.create",
        "response.cancel",
        "conversation.item.create",
        "output_audio_buffer.clear",
        "dance",
        "x" * 5000,
    ],
)
def test_an_event_that_is_not_supported_is_named(kind: str) -> None:
    client = Client()
    assert kinds(client.say(kind, event_id="e")) == ["error"]
    error = client.told[-1]["error"]
    assert (error["code"], error["event_id"]) == ("unsupported", "e")
    assert kind[:50] in error["message"]


@pytest.mark.parametrize("text", ["", "hello", "[]", "{}", '{"type": 5}', "[" * 10_000])
def test_a_message_that_is_not_understood_is_answered_and_survived(text: str) -> None:
    client = Client()
    assert kinds(client.handle(Control(text))) == ["error"]
    assert client.append(b"ab") == [Push(b"ab")]


@pytest.mark.parametrize(
    ("limits", "code"),
    [({"max_chunk_bytes": 3}, 1009), ({"max_body_bytes": 3}, 1008)],
)
def test_a_limit_ends_the_session_with_a_reason(limits: dict[str, int], code: int) -> None:
    client = Client(**limits)
    assert kinds(client.append(bytes(4))) == ["error", f"close {code}"]
    assert client.told[-1]["error"]["param"] in limits


def test_an_idle_client_is_told() -> None:
    client = Client(idle_timeout_ms=1000)
    assert client.session.deadline_s == 101.0
    assert kinds(client.handle(Tick(), 101.0)) == ["error", "close 1008"]


def test_a_failed_run_fails_what_was_committed() -> None:
    client = Client()
    client.hear(SpeechStarted(1.0), SpeechStopped(2.0))
    effects = client.handle(RunBroke(InsufficientMemory("no room")))
    assert kinds(effects) == [f"{TEXT}.failed", "error", "close 1013"]
    assert client.told[-2]["error"]["code"] == "insufficient_memory"


def test_stopping_answers_what_was_heard() -> None:
    client = Client(detects=False)
    client.append(SECOND)
    assert kinds(client.handle(Stop())) == ["input_audio_buffer.committed", *ADDED, "finish"]
    client.hear(TextDelta("Hi"))
    assert kinds(client.handle(RunEnded())) == [f"{TEXT}.completed", "close 1012"]


def test_stopping_waits_for_a_run_that_has_not_begun() -> None:
    client = Client()
    client.append(SECOND)
    client.update(audio={"input": {"turn_detection": None}})
    client.append(SECOND)
    assert kinds(client.handle(Stop()))[-1] == "finish"
    assert kinds(client.handle(RunEnded())) == []
    client.handle(Restarted())
    client.hear(TextDelta("Hi"))
    assert kinds(client.handle(RunEnded())) == [f"{TEXT}.completed", "close 1012"]


def test_stopping_without_a_model_ends_at_once() -> None:
    assert kinds(Client(model=None).handle(Stop())) == ["close 1012"]


def test_a_flush_without_progress_is_given_up() -> None:
    client = ending()
    assert client.handle(Tick(), 100.0 + FLUSH_TIMEOUT_S - 0.1) == []
    assert kinds(client.handle(Tick(), 100.0 + FLUSH_TIMEOUT_S)) == ["error", "close 1011"]


@given(st.lists(st.sampled_from(["append", "commit", "clear", "update", "speech", "words", "answers"]), max_size=40))
def test_whatever_a_client_does_every_committed_item_is_completed_once(actions: list[str]) -> None:
    """The run is played by hand: it answers late, in order."""
    client, detects = Client(), True
    owed: list[Effect] = []
    for action in actions:
        match action:
            case "append":
                owed += client.append(SECOND)
            case "commit" | "clear":
                owed += client.say(f"input_audio_buffer.{action}")
            case "update":
                detects = not detects
                turns = {"type": "server_vad"} if detects else None
                owed += client.update(audio={"input": {"turn_detection": turns}})
            case "speech" if client.session.runs[0].config.detects:
                client.hear(SpeechStarted(0.1), TextDelta("a"), SpeechStopped(0.5), TextDelta(" b"), SpeechAnswered())
            case "words":
                client.hear(TextDelta(" c"))
            case "answers":
                play(client, owed)
    owed += client.handle(Stop())
    play(client, owed)
    committed = [event["item_id"] for event in client.told if event["type"] == "input_audio_buffer.committed"]
    completed = [(e["item_id"], e["transcript"]) for e in client.told if e["type"] == f"{TEXT}.completed"]
    # In which order is open: a stop commits what the last run heard before an earlier one has answered.
    assert sorted(item for item, _ in completed) == sorted(committed)
    for item, transcript in completed:
        deltas = [e["delta"] for e in client.told if e["type"] == f"{TEXT}.delta" and e["item_id"] == item]
        assert "".join(deltas) == transcript


def play(client: Client, owed: list[Effect]) -> None:
    """The run does what was asked of it."""
    while owed:
        match owed.pop(0):
            case Finalize(token):
                client.handle(Heard(Finalized(token)))
            case Finish():
                client.handle(RunEnded())
            case Restart():
                assert client.session.settled
                client.handle(Restarted())
