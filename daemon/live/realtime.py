"""OpenAI's Realtime API for transcription: what happens on each thing heard. No I/O, no waiting.

The same inputs and effects as those of `LiveSession`, in the words of that API. `RULES` is the whole machine:

    OPEN    audio flows
    ENDING  the daemon stops; the model answers what it has heard
    OVER    the close has been decided; nothing that still comes changes anything

A change of the configuration that the model must know of ends its run and begins another: what was heard is answered
first. `input_audio_buffer.clear` does the same, without an answer to what was not committed.
"""

import base64
import binascii
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.errors import DaemonError, InvalidRequest, RunFailed
from audiocpp.daemon.live.close_codes import POLICY, RESTARTING, close_code
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
from audiocpp.daemon.live.meter import Exceeded, IngestMeter
from audiocpp.daemon.live.realtime_config import RealtimeConfig, Shape, updated
from audiocpp.daemon.live.realtime_items import Event, ItemOrder, Items
from audiocpp.daemon.live.realtime_run import RealtimeRun
from audiocpp.daemon.live.session import FLUSH_TIMEOUT_S, Phase
from audiocpp.daemon.registry import Registry

UNSUPPORTED = "unsupported"
EMPTY_COMMIT = "input_audio_buffer_commit_empty"

UPDATES: dict[str, tuple[str, Shape]] = {
    "session.update": ("session.updated", "ga"),
    "transcription_session.update": ("transcription_session.updated", "beta"),
}
"""What changes the configuration, what answers it, and in which shape."""

SHOWN_CHARACTERS = 100


@dataclass(slots=True)
class RealtimeSession:
    """One session. Times are seconds of any steady clock, given by the caller; `opened_s` is the present one.

    Attributes:
        config: what the client has set; `registry` has the models that it may name.
        shape: of the session objects and the items.
        runs: the one that answers now, and those that have not begun; the last one is fed.
    """

    id: str
    config: RealtimeConfig
    registry: Registry
    limits: LiveIngest
    opened_s: float
    shape: Shape = "ga"
    phase: Phase = Phase.OPEN
    runs: deque[RealtimeRun] = field(init=False)
    _order: ItemOrder = field(init=False)
    _meter: IngestMeter = field(init=False)
    _answered_s: float = 0.0
    _commits: int = 0
    _events: int = 0

    def __post_init__(self) -> None:
        self._order = ItemOrder(self.id, self.shape)
        self._meter = IngestMeter(self.limits, self.opened_s)
        self.runs = deque([self._new_run(0.0)])

    def created(self) -> Send:
        """The first event."""
        kind = "transcription_session.created" if self.shape == "beta" else "session.created"
        return self._send({"type": kind, "session": self.config.described(self.id, self.shape)})

    def handle(self, heard: Input, now_s: float) -> list[Effect]:
        return RULES[self.phase, type(heard)](self, heard, now_s)

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.OVER

    @property
    def settled(self) -> bool:
        return self.runs[0].settled

    @property
    def deadline_s(self) -> float:
        if self.phase is Phase.OVER:
            return math.inf
        return self._meter.deadline_s if self.phase is Phase.OPEN else self._answered_s + FLUSH_TIMEOUT_S

    def touch(self, now_s: float) -> None:
        self._meter.touch(now_s)

    # Rules while the session is open.

    def refuse_binary(self, heard: Audio, now_s: float) -> list[Effect]:
        self._meter.touch(now_s)
        message = "binary messages are not understood; audio goes into input_audio_buffer.append"
        return [self._error(message, "invalid_event")] if heard.ends else []

    def control(self, heard: Control, now_s: float) -> list[Effect]:
        self._meter.touch(now_s)
        message = _object(heard.text)
        kind, given_id = message.get("type"), message.get("event_id")
        event_id = given_id[:SHOWN_CHARACTERS] if isinstance(given_id, str) else None
        act = _ACTIONS.get(kind) if isinstance(kind, str) else None
        if act is None:
            shown = kind[:SHOWN_CHARACTERS] if isinstance(kind, str) else "a message without a type"
            accepted = ", ".join(_ACTIONS)
            return [self._error(f"{shown} is not supported; accepted: {accepted}", UNSUPPORTED, event_id=event_id)]
        try:
            return act(self, message, event_id, now_s)
        except DaemonError as error:
            return [self._error(error.message, error.code, param=error.param, event_id=event_id)]

    def expire(self, _heard: Tick, now_s: float) -> list[Effect]:
        exceeded = self._meter.expired(now_s)
        return [] if exceeded is None else self._refuse(exceeded)

    def stop(self, _heard: Stop, now_s: float) -> list[Effect]:
        """What was heard is still answered, then the client is told to come back."""
        self._answered_s = now_s
        if self.config.entry is None:
            self.phase = Phase.OVER
            return [Close(RESTARTING, "restarting")]
        self.phase = Phase.ENDING
        return [*self._sends(self.runs[-1].finish()), Finish()]

    # Rules while the daemon stops.

    def expire_flush(self, _heard: Tick, now_s: float) -> list[Effect]:
        if now_s < self.deadline_s:
            return []
        return self.broke(RunBroke(RunFailed(f"the model gave no answer for {FLUSH_TIMEOUT_S:g} s")), now_s)

    def done(self, heard: RunEnded, now_s: float) -> list[Effect]:
        effects = self.end_run(heard, now_s)
        if len(self.runs) > 1:
            return effects
        self.phase = Phase.OVER
        return [*effects, Close(RESTARTING, "restarting")]

    # Rules of both.

    def forward(self, heard: Heard, now_s: float) -> list[Effect]:
        self._answered_s = now_s
        return self._sends(self.runs[0].tell(heard.event))

    def end_run(self, _heard: RunEnded, _now_s: float) -> list[Effect]:
        return self._sends(self.runs[0].end())

    def next_run(self, _heard: Restarted, _now_s: float) -> list[Effect]:
        self.runs.popleft()
        return []

    def broke(self, heard: RunBroke, _now_s: float) -> list[Effect]:
        self.phase = Phase.OVER
        error = heard.error
        failed = [effect for run in self.runs for effect in self._sends(run.items.fail(error))]
        told = self._error(error.message, error.code, kind=error.type)
        return [*failed, told, Close(close_code(error), error.code)]

    def leave(self, _heard: Lost, _now_s: float) -> list[Effect]:
        self.phase = Phase.OVER
        return [Close(POLICY)]

    def ignore(self, _heard: Input, _now_s: float) -> list[Effect]:
        return []

    # What clients ask for.

    def _update(self, message: Mapping[str, Any], event_id: str | None, _now_s: float) -> list[Effect]:
        answer, shape = UPDATES[message["type"]]
        shape = "beta" if self.shape == "beta" else shape
        was, (self.config, refusals) = self.config, updated(self.config, message.get("session"), self.registry)
        told = self._send({"type": answer, "session": self.config.described(self.id, shape)})
        refused = [self._error(why, UNSUPPORTED, param=param, event_id=event_id) for param, why in refusals]
        return [told, *refused, *self._replace_run(was)]

    def _replace_run(self, was: RealtimeConfig) -> list[Effect]:
        """Another run, where the model must know of the change. The one before answers what it heard."""
        entry = self.config.entry
        if entry is None or (entry is was.entry and self.config.request() == was.request()):
            return []
        run = self.runs[-1]
        effects: list[Effect] = [*self._sends(run.finish()), Finish()] if run.heard else []
        self.runs.append(self._new_run(run.ends_s))
        request = self.config.request()
        return [*effects, Restart(request) if entry is was.entry else Move(entry, request)]

    def _append(self, message: Mapping[str, Any], _event_id: str | None, now_s: float) -> list[Effect]:
        audio = _decoded(message.get("audio"))
        if self.config.entry is None:
            param = "audio.input.transcription.model"
            raise InvalidRequest(f"no model is named: set {param} with session.update", param=param)
        if (exceeded := self._meter.count(Audio(audio), now_s)) is not None:
            return self._refuse(exceeded)
        if not audio:
            return []
        self.runs[-1].feed(len(audio))
        return [Push(audio)]

    def _commit(self, _message: Mapping[str, Any], event_id: str | None, _now_s: float) -> list[Effect]:
        run = self.runs[-1]
        if not run.uncommitted_bytes:
            return [self._error("there is no audio to commit", EMPTY_COMMIT, event_id=event_id)]
        self._commits += 1
        token = str(self._commits)
        return [*self._sends(run.commit(token)), Finalize(token)]

    def _clear(self, _message: Mapping[str, Any], _event_id: str | None, _now_s: float) -> list[Effect]:
        cleared = self._send({"type": "input_audio_buffer.cleared"})
        run = self.runs[-1]
        if not run.uncommitted_bytes:
            return [cleared]
        run.drop()
        self.runs.append(self._new_run(run.ends_s))
        return [cleared, Restart(self.config.request())]

    def _new_run(self, begins_s: float) -> RealtimeRun:
        return RealtimeRun(self.config, Items(self._order), begins_s)

    def _refuse(self, exceeded: Exceeded) -> list[Effect]:
        self.phase = Phase.OVER
        message, limit = exceeded.message, exceeded.limit
        told = f"{message} ({limit} is {getattr(self.limits, limit)})"
        return [self._error(told, "limit_exceeded", param=limit), Close(exceeded.code, message)]

    def _error(
        self,
        message: str,
        code: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        event_id: str | None = None,
    ) -> Send:
        error = {"type": kind, "code": code, "message": message, "param": param, "event_id": event_id}
        return self._send({"type": "error", "error": error})

    def _sends(self, events: Iterable[Event]) -> list[Effect]:
        return [self._send(event) for event in events]

    def _send(self, event: Event) -> Send:
        self._events += 1
        return Send({"event_id": f"event_{self.id[-12:]}_{self._events}", **event})


Action = Callable[[RealtimeSession, Mapping[str, Any], str | None, float], list[Effect]]

_ACTIONS: Mapping[str, Action] = {
    **dict.fromkeys(UPDATES, RealtimeSession._update),
    "input_audio_buffer.append": RealtimeSession._append,
    "input_audio_buffer.commit": RealtimeSession._commit,
    "input_audio_buffer.clear": RealtimeSession._clear,
}

Rule = Callable[[RealtimeSession, Any, float], list[Effect]]

_UNUSED = RealtimeSession.ignore
"""For what this transport never hears."""

RULES: Mapping[tuple[Phase, type[Input]], Rule] = {
    (Phase.OPEN, Audio): RealtimeSession.refuse_binary,
    (Phase.OPEN, Control): RealtimeSession.control,
    (Phase.OPEN, Ended): _UNUSED,
    (Phase.OPEN, Broken): _UNUSED,
    (Phase.OPEN, Lost): RealtimeSession.leave,
    (Phase.OPEN, Heard): RealtimeSession.forward,
    (Phase.OPEN, Restarted): RealtimeSession.next_run,
    (Phase.OPEN, RunEnded): RealtimeSession.end_run,
    (Phase.OPEN, RunBroke): RealtimeSession.broke,
    (Phase.OPEN, Tick): RealtimeSession.expire,
    (Phase.OPEN, Stop): RealtimeSession.stop,
    (Phase.ENDING, Audio): RealtimeSession.ignore,
    (Phase.ENDING, Control): RealtimeSession.ignore,
    (Phase.ENDING, Ended): _UNUSED,
    (Phase.ENDING, Broken): _UNUSED,
    (Phase.ENDING, Lost): RealtimeSession.leave,
    (Phase.ENDING, Heard): RealtimeSession.forward,
    (Phase.ENDING, Restarted): RealtimeSession.next_run,
    (Phase.ENDING, RunEnded): RealtimeSession.done,
    (Phase.ENDING, RunBroke): RealtimeSession.broke,
    (Phase.ENDING, Tick): RealtimeSession.expire_flush,
    (Phase.ENDING, Stop): RealtimeSession.ignore,
    **{(Phase.OVER, heard): RealtimeSession.ignore for heard in INPUTS},
}


def _object(text: str) -> dict[str, Any]:
    """The object in a text message; an empty one when it is not a JSON object."""
    try:
        message = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _decoded(text: object) -> bytes:
    """Base64, with or without its padding."""
    if not isinstance(text, str):
        raise InvalidRequest("audio must be text in base64", param="audio")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"audio is not valid base64: {error}", param="audio") from error
