"""What the client of a live session is told: a run's events, and errors."""

from typing import Any

import msgspec

from audiocpp.daemon.live.messages import Send
from audiocpp.engines.tasks import (
    Finalized,
    Segment,
    SpeechStarted,
    SpeechStopped,
    TaskEvent,
    TextDelta,
    TextPartial,
)


def client_event(event: TaskEvent, *, partials: bool, words: bool) -> dict[str, Any] | None:
    """None for what the client has not asked for. Times are seconds of the client's own audio."""
    match event:
        case TextDelta(text):
            return {"type": "transcript.text.delta", "delta": text} if text else None
        case TextPartial(text):
            return {"type": "transcript.text.partial", "text": text} if partials else None
        case Segment():
            return _segment(event, words=words)
        case SpeechStarted(at):
            return {"type": "speech.started", "at": at}
        case SpeechStopped(at):
            return {"type": "speech.stopped", "at": at}
        case Finalized(token):
            return {"type": "transcript.finalized", "id": token}
    return None


def _segment(segment: Segment, *, words: bool) -> dict[str, Any]:
    event: dict[str, Any] = {
        "type": "transcript.segment",
        "id": segment.index,
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "confidence": segment.confidence,
    }
    return {**event, "words": msgspec.to_builtins(segment.words)} if words else event


def error_event(message: str, code: str, *, kind: str = "invalid_request_error", param: str | None = None) -> Send:
    error = {"message": message, "type": kind, "code": code}
    return Send({"type": "error", "error": error if param is None else {**error, "param": param}})
