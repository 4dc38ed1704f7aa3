"""A session of live speech: what happens to the text that comes in pieces. No I/O, no waiting."""

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.live.close_codes import DONE, RESTARTING
from audiocpp.daemon.live.events import error_event
from audiocpp.daemon.live.messages import Audio, Close, Send
from audiocpp.daemon.live.meter import Exceeded, IngestMeter
from audiocpp.daemon.live.speech_text import SpeechText

CONTROL_MESSAGES = '{"type": "text", "text": …}, {"type": "flush"}, {"type": "end"}, {"type": "keepalive"}'


class Say(msgspec.Struct, frozen=True):
    """Speak this, after everything before it."""

    text: str


class Flushed(msgspec.Struct, frozen=True):
    """Tell the client that everything before this has been spoken."""

    id: str


class Finish(msgspec.Struct, frozen=True):
    """Everything has been spoken: tell the client, and close with `code`."""

    code: int


SpeechEffect = Say | Flushed | Finish | Send | Close
"""`Send` and `Close` are performed at once, the others one after the other."""


@dataclass(slots=True)
class SpeechSession:
    """One session. Times are seconds of any steady clock, given by the caller; `opened_s` is the present one."""

    text: SpeechText
    limits: LiveIngest
    opened_s: float
    _meter: IngestMeter = field(init=False)
    _ended: bool = False
    _flushes: int = 0

    def __post_init__(self) -> None:
        self._meter = IngestMeter(self.limits, self.opened_s)

    @property
    def deadline_s(self) -> float:
        """When `expire` is due."""
        return math.inf if self._ended else self._meter.deadline_s

    def control(self, text: str, now_s: float) -> list[SpeechEffect]:
        """A text message has come."""
        message = _message(text)
        pushed = message.get("text")
        data = pushed.encode(errors="replace") if isinstance(pushed, str) else b""
        if self._ended:
            return [error_event("the input has ended; only speech follows", "input_ended")]
        if (exceeded := self._meter.count(Audio(data), now_s)) is not None:
            return self._refuse(exceeded)
        match message.get("type"):
            case "text" if isinstance(pushed, str):
                return _said(self.text.push(pushed))
            case "flush":
                self._flushes += 1
                return [*_said(self.text.flush()), Flushed(str(self._flushes))]
            case "end":
                return self._end(DONE)
            case "keepalive":
                return []
        return [error_event(f"control message not understood; accepted: {CONTROL_MESSAGES}", "invalid_control")]

    def binary(self, now_s: float) -> list[SpeechEffect]:
        """A message that is no text has come."""
        self._meter.touch(now_s)
        return [error_event(f"binary messages are not understood; accepted: {CONTROL_MESSAGES}", "invalid_control")]

    def expire(self, now_s: float, *, speaking: bool) -> list[SpeechEffect]:
        """Time has passed. A client that listens is not idle."""
        if speaking:
            self._meter.touch(now_s)
        exceeded = None if self._ended else self._meter.expired(now_s)
        return [] if exceeded is None else self._refuse(exceeded)

    def stop(self) -> list[SpeechEffect]:
        """The daemon is stopping: what was sent is still spoken."""
        return [] if self._ended else self._end(RESTARTING)

    def _end(self, code: int) -> list[SpeechEffect]:
        self._ended = True
        return [*_said(self.text.flush()), Finish(code)]

    def _refuse(self, exceeded: Exceeded) -> list[SpeechEffect]:
        self._ended = True
        told = f"{exceeded.message} ({exceeded.limit} is {getattr(self.limits, exceeded.limit)})"
        return [error_event(told, "limit_exceeded", param=exceeded.limit), Close(exceeded.code, exceeded.message)]


def _said(text: str) -> list[SpeechEffect]:
    return [Say(text)] if text else []


def _message(text: str) -> dict[str, Any]:
    """The object in a text message; an empty one when it is not a JSON object."""
    try:
        message = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
