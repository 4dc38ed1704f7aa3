"""The live session: what happens on each thing heard from the client, the model or the clock. No I/O, no waiting.

The transport feeds `LiveSession.handle` and performs the effects it returns, in order. `RULES` is the whole machine:

    OPEN    audio flows
    ENDING  the input has ended; the model answers what it has heard
    OVER    the close has been decided; nothing that still comes changes anything
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import msgspec

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.errors import (
    DaemonError,
    InsufficientMemory,
    InvalidRequest,
    RequestTimeout,
    RunFailed,
    ServerBusy,
    ShuttingDown,
)
from audiocpp.daemon.live.arrivals import Arrivals
from audiocpp.daemon.live.events import client_event
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
from audiocpp.engines.tasks import AudioFormat, Segment, TaskEvent, TextDelta

FLUSH_TIMEOUT_S = 60.0
"""Longest silence of the model after the end of the input."""

TOKEN_CHARACTERS = 256
"""Longest `id` of a `finalize`: it waits in queues that are bounded in audio."""

DONE, POLICY, TOO_LARGE, INTERNAL, RESTARTING, TRY_LATER = 1000, 1008, 1009, 1011, 1012, 1013

CLOSE_CODES = {
    DONE: "The final text has been sent.",
    POLICY: "A limit was exceeded or the model refused the input; an `error` event says which.",
    TOO_LARGE: "A frame was too large.",
    INTERNAL: "The model failed; an `error` event says how.",
    RESTARTING: "The daemon is stopping. What was heard has been answered.",
    TRY_LATER: "No place or no memory now.",
}

_CODES_OF_ERRORS: tuple[tuple[type[DaemonError], int], ...] = (
    (InvalidRequest, POLICY),
    (RequestTimeout, POLICY),
    (ShuttingDown, RESTARTING),
    (ServerBusy, TRY_LATER),
    (InsufficientMemory, TRY_LATER),
)


class Phase(Enum):
    OPEN = auto()
    ENDING = auto()
    OVER = auto()


@dataclass(slots=True)
class LiveSession:
    """One session. Times are seconds of any steady clock, given by the caller; `opened_s` is the present one."""

    id: str
    model: str
    audio: AudioFormat
    limits: LiveIngest
    opened_s: float
    partials: bool = False
    words: bool = False
    phase: Phase = Phase.OPEN
    text: str = ""
    _active_s: float = field(init=False)
    _received_bytes: int = 0
    _arrivals: Arrivals = field(default_factory=Arrivals)
    _finalized: int = 0
    _ttft_ms: float | None = None
    _final_latency_ms: float | None = None
    _close_code: int = DONE

    def __post_init__(self) -> None:
        self._active_s = self.opened_s

    def created(self) -> Send:
        """The first event."""
        limits = msgspec.to_builtins(self.limits)
        rate_hz = self.audio.sample_rate
        return Send(
            {"type": "session.created", "id": self.id, "model": self.model, "sample_rate": rate_hz, "limits": limits}
        )

    def handle(self, heard: Input, now_s: float) -> list[Effect]:
        return RULES[self.phase, type(heard)](self, heard, now_s)

    @property
    def deadline_s(self) -> float:
        """When a `Tick` is due."""
        match self.phase:
            case Phase.OPEN:
                return min(self._idle_end_s, self._total_end_s)
            case Phase.ENDING:
                return self._active_s + FLUSH_TIMEOUT_S
            case Phase.OVER:
                return math.inf

    def touch(self, now_s: float) -> None:
        """The client is not idle: it waits for us."""
        self._active_s = now_s

    @property
    def _idle_end_s(self) -> float:
        return self._active_s + (self.limits.idle_timeout_ms / 1e3 or math.inf)

    @property
    def _total_end_s(self) -> float:
        return self.opened_s + (self.limits.total_timeout_ms / 1e3 or math.inf)

    # Rules while the session is open.

    def hear(self, heard: Audio, now_s: float) -> list[Effect]:
        self._active_s = now_s
        if len(heard.data) > self.limits.max_chunk_bytes:
            return self._refuse("chunk size exceeds the maximum", "max_chunk_bytes", TOO_LARGE)
        self._received_bytes += len(heard.data)
        if 0 < self.limits.max_body_bytes < self._received_bytes:
            return self._refuse("live request body exceeded its maximum size", "max_body_bytes", POLICY)
        if not heard.data:
            return []
        self._arrivals.add(self._audio_s, now_s)
        return [Push(heard.data)]

    def control(self, heard: Control, now_s: float) -> list[Effect]:
        self._active_s = now_s
        message = _control_message(heard.text)
        match message.get("type"):
            case "finalize" if len(token := str(message.get("id", self._finalized + 1))) <= TOKEN_CHARACTERS:
                self._finalized += 1
                return [Finalize(token)]
            case "end":
                self.phase = Phase.ENDING
                return [Finish()]
            case "keepalive":
                return []
        return [_error_event(f"control message not understood; accepted: {CONTROL_MESSAGES}", "invalid_control")]

    def expire(self, _heard: Tick, now_s: float) -> list[Effect]:
        if now_s >= self._total_end_s:
            return self._refuse("live request body exceeded its total deadline", "total_timeout_ms", POLICY)
        if now_s >= self._idle_end_s:
            return self._refuse("live request body stalled", "idle_timeout_ms", POLICY)
        return []

    def stop(self, _heard: Stop, now_s: float) -> list[Effect]:
        """What was heard is still answered, then the client is told to come back."""
        self._active_s = now_s
        self._close_code = RESTARTING
        self.phase = Phase.ENDING
        return [Finish()]

    # Rules while the model answers the rest.

    def hear_late(self, _heard: Audio, _now_s: float) -> list[Effect]:
        return [] if self._close_code == RESTARTING else [_error_event("audio after the end is dropped", "input_ended")]

    def control_late(self, heard: Control, _now_s: float) -> list[Effect]:
        if _control_message(heard.text).get("type") in ("keepalive", "end"):
            return []
        return [_error_event("the input has ended; only the final text follows", "input_ended")]

    def expire_flush(self, _heard: Tick, now_s: float) -> list[Effect]:
        if now_s < self.deadline_s:
            return []
        return self.broke(RunBroke(RunFailed(f"the model gave no answer for {FLUSH_TIMEOUT_S:g} s")), now_s)

    def stop_late(self, _heard: Stop, _now_s: float) -> list[Effect]:
        self._close_code = RESTARTING
        return []

    # Rules of both.

    def forward(self, heard: Heard, now_s: float) -> list[Effect]:
        if self.phase is Phase.ENDING:
            self._active_s = now_s
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
        code = next((code for kind, code in _CODES_OF_ERRORS if isinstance(error, kind)), INTERNAL)
        return [_error_event(error.message, error.code, kind=error.type), Close(code, error.code)]

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

    def _refuse(self, message: str, limit: str, code: int) -> list[Effect]:
        self.phase = Phase.OVER
        allowed = f"{limit} is {getattr(self.limits, limit)}"
        return [_error_event(f"{message} ({allowed})", "limit_exceeded"), Close(code, message)]


CONTROL_MESSAGES = '{"type": "finalize"}, {"type": "end"}, {"type": "keepalive"}'

Rule = Callable[[LiveSession, Any, float], list[Effect]]

RULES: Mapping[tuple[Phase, type[Input]], Rule] = {
    (Phase.OPEN, Audio): LiveSession.hear,
    (Phase.OPEN, Control): LiveSession.control,
    (Phase.OPEN, Heard): LiveSession.forward,
    (Phase.OPEN, RunEnded): LiveSession.done,
    (Phase.OPEN, RunBroke): LiveSession.broke,
    (Phase.OPEN, Tick): LiveSession.expire,
    (Phase.OPEN, Stop): LiveSession.stop,
    (Phase.ENDING, Audio): LiveSession.hear_late,
    (Phase.ENDING, Control): LiveSession.control_late,
    (Phase.ENDING, Heard): LiveSession.forward,
    (Phase.ENDING, RunEnded): LiveSession.done,
    (Phase.ENDING, RunBroke): LiveSession.broke,
    (Phase.ENDING, Tick): LiveSession.expire_flush,
    (Phase.ENDING, Stop): LiveSession.stop_late,
    **{(Phase.OVER, heard): LiveSession.ignore for heard in INPUTS},
}


def _control_message(text: str) -> dict[str, Any]:
    """The object in a text message; an empty one when it is not a JSON object."""
    try:
        message = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _error_event(message: str, code: str, *, kind: str = "invalid_request_error") -> Send:
    return Send({"type": "error", "error": {"message": message, "type": kind, "code": code}})
