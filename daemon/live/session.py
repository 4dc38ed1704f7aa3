"""The live session: what happens on each thing heard from the client, the model or the clock. No I/O, no waiting.

The transport feeds `LiveSession.handle` and performs the effects it returns, in order. `RULES` is the whole machine:

    OPEN    audio flows
    ENDING  the input has ended; the model answers what it has heard
    OVER    the close has been decided; nothing that still comes changes anything

A session whose connection broke is held for `resume_ms`, in the phase it was in, until `resume` or the end of it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import msgspec

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.errors import RunFailed
from audiocpp.daemon.live.arrivals import Arrivals
from audiocpp.daemon.live.close_codes import CLOSE_CODES as CLOSE_CODES
from audiocpp.daemon.live.close_codes import DONE, POLICY, RESTARTING, close_code
from audiocpp.daemon.live.events import client_event, error_event
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
from audiocpp.daemon.live.meter import Exceeded, IngestMeter
from audiocpp.engines.tasks import AudioFormat, Segment, TaskEvent, TextDelta

FLUSH_TIMEOUT_S = 60.0
"""Longest silence of the model after the end of the input."""

TOKEN_CHARACTERS = 256
"""Longest `id` of a `finalize`: it waits in queues that are bounded in audio."""

CONTROL_CHARACTERS = 4096
"""Longest control message that is looked at."""


class Phase(Enum):
    OPEN = auto()
    ENDING = auto()
    OVER = auto()


@dataclass(slots=True)
class LiveSession:
    """One session. Times are seconds of any steady clock, given by the caller; `opened_s` is the present one.

    Attributes:
        resume_ms: how long it is held for a client that lost its connection; 0: not at all.
        names_limits: an error says which limit was passed and what it is; else just the words of the reference.
        text: all deltas joined.
        forgotten: it is over, and nobody is there to be told.
    """

    id: str
    model: str
    audio: AudioFormat
    limits: LiveIngest
    opened_s: float
    partials: bool = False
    words: bool = False
    resume_ms: int = 0
    names_limits: bool = True
    phase: Phase = Phase.OPEN
    text: str = ""
    forgotten: bool = False
    _meter: IngestMeter = field(init=False)
    _received_bytes: int = 0
    _known_bytes: int = 0
    _lost_s: float | None = None
    _answered_s: float = 0.0
    _arrivals: Arrivals = field(default_factory=Arrivals)
    _finalized: int = 0
    _ttft_ms: float | None = None
    _final_latency_ms: float | None = None
    _close_code: int = DONE

    def __post_init__(self) -> None:
        self._meter = IngestMeter(self.limits, self.opened_s)

    def created(self) -> Send:
        """The first event."""
        return self._created(resumed=False, next_sample=0)

    def resume(self, offset: int | None, told: str, now_s: float) -> Send:
        """The client is back; returns the first event of its new connection, which begins with `next_sample`.

        That is `offset`, where the client goes on, or the first sample that has not come, where that is earlier. What
        has come before is then dropped when it comes again. `told` are the deltas that were sent before.
        """
        self._lost_s = None
        self._meter.resume(now_s)
        frame_bytes = self.audio.frame_bytes
        expected = self._received_bytes // frame_bytes
        next_sample = expected if offset is None else min(offset, expected)
        self._known_bytes = self._received_bytes - next_sample * frame_bytes
        return self._created(resumed=True, next_sample=next_sample, text=told)

    def _created(self, **more: object) -> Send:
        fixed = {"id": self.id, "model": self.model, "sample_rate": self.audio.sample_rate}
        limits = msgspec.to_builtins(self.limits)
        return Send({"type": "session.created", **fixed, "limits": limits, "resume_ms": self.resume_ms, **more})

    def handle(self, heard: Input, now_s: float) -> list[Effect]:
        return RULES[self.phase, type(heard)](self, heard, now_s)

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.OVER

    @property
    def settled(self) -> bool:
        """It never has another run."""
        return True

    @property
    def deadline_s(self) -> float:
        """When a `Tick` is due."""
        if self.phase is Phase.OVER:
            return math.inf
        if self._lost_s is not None:
            return min(self._lost_s + self.resume_ms / 1e3, self._meter.total_end_s)
        return self._meter.deadline_s if self.phase is Phase.OPEN else self._flush_end_s

    def touch(self, now_s: float) -> None:
        """The client is not idle: it waits for us."""
        self._meter.touch(now_s)

    @property
    def _flush_end_s(self) -> float:
        return self._answered_s + FLUSH_TIMEOUT_S

    # Rules while the session is open.

    def hear(self, heard: Audio, now_s: float) -> list[Effect]:
        if (exceeded := self._meter.count(heard, now_s)) is not None:
            return self._refuse(exceeded)
        known = min(self._known_bytes, len(heard.data))
        self._known_bytes -= known
        data = heard.data[known:]
        if not data:
            return []
        self._received_bytes += len(data)
        self._arrivals.add(self._audio_s, now_s)
        return [Push(data)]

    def control(self, heard: Control, now_s: float) -> list[Effect]:
        self._meter.touch(now_s)
        message = _control_message(heard.text)
        match message.get("type"):
            case "finalize" if len(token := str(message.get("id", self._finalized + 1))) <= TOKEN_CHARACTERS:
                self._finalized += 1
                return [Finalize(token)]
            case "end":
                return self.end(Ended(), now_s)
            case "keepalive":
                return []
        return [error_event(f"control message not understood; accepted: {CONTROL_MESSAGES}", "invalid_control")]

    def end(self, _heard: Ended, now_s: float) -> list[Effect]:
        self._answered_s = now_s
        self.phase = Phase.ENDING
        return [Finish()]

    def give_up(self, heard: Broken, _now_s: float) -> list[Effect]:
        self.phase = Phase.OVER
        return [error_event(heard.message, "invalid_request"), Close(POLICY, heard.message)]

    def expire(self, _heard: Tick, now_s: float) -> list[Effect]:
        if self._lost_s is not None and now_s >= self.deadline_s:
            return self._forget()
        exceeded = self._meter.expired(now_s) if self._lost_s is None else None
        return [] if exceeded is None else self._refuse(exceeded)

    def stop(self, _heard: Stop, now_s: float) -> list[Effect]:
        """What was heard is still answered, then the client is told to come back."""
        self._close_code = RESTARTING
        return self._forget() if self._lost_s is not None else self.end(Ended(), now_s)

    def lose(self, _heard: Lost, now_s: float) -> list[Effect]:
        """A client that has sent nothing has nothing to go on with."""
        if not self.resume_ms or not self._received_bytes:
            return self._forget()
        self._lost_s = now_s
        return []

    # Rules while the model answers the rest.

    def hear_late(self, _heard: Audio, _now_s: float) -> list[Effect]:
        return [] if self._close_code == RESTARTING else [error_event("audio after the end is dropped", "input_ended")]

    def control_late(self, heard: Control, _now_s: float) -> list[Effect]:
        if _control_message(heard.text).get("type") in ("keepalive", "end"):
            return []
        return [error_event("the input has ended; only the final text follows", "input_ended")]

    def expire_flush(self, _heard: Tick, now_s: float) -> list[Effect]:
        if now_s >= self._flush_end_s:
            return self.broke(RunBroke(RunFailed(f"the model gave no answer for {FLUSH_TIMEOUT_S:g} s")), now_s)
        return self._forget() if self._lost_s is not None and now_s >= self.deadline_s else []

    def stop_late(self, _heard: Stop, _now_s: float) -> list[Effect]:
        self._close_code = RESTARTING
        return self._forget() if self._lost_s is not None else []

    # Rules of both.

    def forward(self, heard: Heard, now_s: float) -> list[Effect]:
        self._answered_s = now_s
        self._note(heard.event, now_s)
        event = client_event(heard.event, partials=self.partials, words=self.words)
        return [] if event is None else [Send(event)]

    def done(self, _heard: RunEnded, _now_s: float) -> list[Effect]:
        self.phase = Phase.OVER
        timing = {
            "ttft_ms": self._ttft_ms,
            "audio_ms": self._audio_s * 1e3,
            "final_latency_ms": self._final_latency_ms,
        }
        event = {"type": "transcript.text.done", "text": self.text, "timing": timing}
        return [Send(event), Close(self._close_code, "restarting" if self._close_code == RESTARTING else "")]

    def broke(self, heard: RunBroke, _now_s: float) -> list[Effect]:
        self.phase = Phase.OVER
        error = heard.error
        return [error_event(error.message, error.code, kind=error.type), Close(close_code(error), error.code)]

    def ignore(self, _heard: Input, _now_s: float) -> list[Effect]:
        return []

    def _note(self, event: TaskEvent, now_s: float) -> None:
        """Keeps the text and the figures of the closing event."""
        match event:
            case TextDelta(text):
                self.text += text
                if self._ttft_ms is None and self._arrivals.first_s is not None:
                    self._ttft_ms = (now_s - self._arrivals.first_s) * 1e3
            case Segment(end=end):
                self._final_latency_ms = self._arrivals.latency_ms(end, now_s)

    @property
    def _audio_s(self) -> float:
        return self._received_bytes / self.audio.frame_bytes / self.audio.sample_rate

    def _refuse(self, exceeded: Exceeded) -> list[Effect]:
        self.phase = Phase.OVER
        message, limit = exceeded.message, exceeded.limit
        told = f"{message} ({limit} is {getattr(self.limits, limit)})" if self.names_limits else message
        return [error_event(told, "limit_exceeded", param=limit), Close(exceeded.code, message)]

    def _forget(self) -> list[Effect]:
        self.phase = Phase.OVER
        self.forgotten = True
        return [Close(self._close_code)]


CONTROL_MESSAGES = '{"type": "finalize"}, {"type": "end"}, {"type": "keepalive"}'

Rule = Callable[[LiveSession, Any, float], list[Effect]]

RULES: Mapping[tuple[Phase, type[Input]], Rule] = {
    (Phase.OPEN, Audio): LiveSession.hear,
    (Phase.OPEN, Control): LiveSession.control,
    (Phase.OPEN, Ended): LiveSession.end,
    (Phase.OPEN, Broken): LiveSession.give_up,
    (Phase.OPEN, Lost): LiveSession.lose,
    (Phase.OPEN, Heard): LiveSession.forward,
    (Phase.OPEN, Restarted): LiveSession.ignore,
    (Phase.OPEN, RunEnded): LiveSession.done,
    (Phase.OPEN, RunBroke): LiveSession.broke,
    (Phase.OPEN, Tick): LiveSession.expire,
    (Phase.OPEN, Stop): LiveSession.stop,
    (Phase.ENDING, Audio): LiveSession.hear_late,
    (Phase.ENDING, Control): LiveSession.control_late,
    (Phase.ENDING, Ended): LiveSession.ignore,
    (Phase.ENDING, Broken): LiveSession.ignore,
    (Phase.ENDING, Lost): LiveSession.lose,
    (Phase.ENDING, Heard): LiveSession.forward,
    (Phase.ENDING, Restarted): LiveSession.ignore,
    (Phase.ENDING, RunEnded): LiveSession.done,
    (Phase.ENDING, RunBroke): LiveSession.broke,
    (Phase.ENDING, Tick): LiveSession.expire_flush,
    (Phase.ENDING, Stop): LiveSession.stop_late,
    **{(Phase.OVER, heard): LiveSession.ignore for heard in INPUTS},
}


def _control_message(text: str) -> dict[str, Any]:
    """The object in a text message; an empty one when it is not a JSON object."""
    if len(text) > CONTROL_CHARACTERS:
        return {}
    try:
        message = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
