"""Events of streams, and the messages of live sessions. The first member, `type`, says which one it is."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from audiocpp.daemon.http.openapi.replies import Error
from audiocpp.daemon.http.task_result import StreamEvent, TaskResult, TaskTiming
from audiocpp.daemon.http.transcript_details import TranscriptDetails

Seconds = Annotated[float, Meta(description="Seconds of the client's own recording.")]


class FirstOutput(msgspec.Struct, kw_only=True):
    """How long it took."""

    ttft_ms: Annotated[float | None, Meta(description="From the request to the first output; null without output.")]


class ErrorEvent(msgspec.Struct, tag="error", kw_only=True):
    """The last event of a stream that breaks off; no `[DONE]` follows."""

    error: Error


class SpeechDelta(msgspec.Struct, tag="speech.audio.delta", kw_only=True):
    audio: Annotated[str, Meta(description="16-bit PCM in base64.")]


class SpeechDone(msgspec.Struct, tag="speech.audio.done", kw_only=True):
    timing: FirstOutput


class TextDelta(msgspec.Struct, tag="transcript.text.delta", kw_only=True):
    """Text that does not change any more. All deltas joined are the text."""

    delta: str


class TranscriptDone(msgspec.Struct, tag="transcript.text.done", kw_only=True):
    text: str
    timing: FirstOutput


class TaskEvent(msgspec.Struct, tag="task.stream.event", kw_only=True):
    event: StreamEvent


class TaskDone(msgspec.Struct, tag="task.stream.done", kw_only=True):
    result: TaskResult


class TaskBatchResult(msgspec.Struct, tag="task.batch.result", kw_only=True):
    """One request is done; `index` counts them as they were sent."""

    index: int
    result: TaskResult


class TaskBatchDone(msgspec.Struct, tag="task.batch.done", kw_only=True):
    result_count: int
    timing: TaskTiming


class BatchTranscript(TranscriptDetails, tag="batch.transcription.result", kw_only=True, frozen=True):
    """One recording is done; `index` counts them as they were sent."""

    index: int
    filename: str | None


class BatchDone(msgspec.Struct, tag="batch.transcription.done", kw_only=True):
    result_count: int
    timing: TaskTiming


class SessionCreated(msgspec.Struct, tag="session.created", kw_only=True):
    """The first event of each connection of a live session."""

    id: str
    model: str
    sample_rate: int
    limits: dict[str, int]
    resume_ms: Annotated[int, Meta(description="How long the session waits when its connection breaks; 0: not at all.")]
    resumed: Annotated[bool, Meta(description="Whether this connection goes on with the session of another.")]
    next_sample: Annotated[int, Meta(description="The sample that the audio of this connection begins with.")]
    text: Annotated[str | UnsetType, Meta(description="The deltas sent before, joined; when resumed.")] = UNSET


class TextPartial(msgspec.Struct, tag="transcript.text.partial", kw_only=True):
    """The present guess at what follows the deltas; with `partials`."""

    text: str


class LiveWord(msgspec.Struct, kw_only=True):
    word: str
    start: Seconds
    end: Seconds
    confidence: float | None


class LiveSegment(msgspec.Struct, tag="transcript.segment", kw_only=True):
    id: int
    start: Seconds
    end: Seconds
    text: str
    confidence: float | None
    words: Annotated[list[LiveWord] | UnsetType, Meta(description="With `words`.")] = UNSET


class SpeechStarted(msgspec.Struct, tag="speech.started", kw_only=True):
    at: Seconds


class SpeechStopped(msgspec.Struct, tag="speech.stopped", kw_only=True):
    at: Seconds


class Finalized(msgspec.Struct, tag="transcript.finalized", kw_only=True):
    """Everything sent before that `finalize` has been answered."""

    id: str


class LiveTiming(msgspec.Struct, kw_only=True):
    ttft_ms: Annotated[float | None, Meta(description="From the first audio to the first text.")]
    audio_ms: float
    final_latency_ms: Annotated[float | None, Meta(description="From the end of the last speech to its final text.")]


class LiveDone(msgspec.Struct, tag="transcript.text.done", kw_only=True):
    """The last event of a live session."""

    text: str
    timing: LiveTiming


class LiveError(msgspec.Struct, kw_only=True):
    """What went wrong."""

    message: str
    type: str
    code: str
    param: Annotated[str | UnsetType | None, Meta(description="The path of the field at fault.")] = UNSET


class LiveErrorEvent(msgspec.Struct, tag="error", kw_only=True):
    """A control message that was not understood, or why the session ends."""

    error: LiveError


class Finalize(msgspec.Struct, tag="finalize", kw_only=True):
    """Asks for the text of all that was sent so far, and goes on."""

    id: Any = UNSET


class End(msgspec.Struct, tag="end"):
    """The input is complete."""


class KeepAlive(msgspec.Struct, tag="keepalive"):
    """Counts as activity."""


class SpeechText(msgspec.Struct, tag="text", kw_only=True):
    """The next piece of the text. What is a sentence is spoken when the next one begins."""

    text: str


class Flush(msgspec.Struct, tag="flush"):
    """Speaks what has come, whether it is a sentence or not."""


class SpeechCreated(msgspec.Struct, tag="speech.created", kw_only=True):
    """The first event; the format of the binary messages."""

    model: str
    voice: str
    sample_rate: int
    channels: int


class Flushed(msgspec.Struct, tag="speech.flushed", kw_only=True):
    """All audio of what came before that `flush` has been sent. They are counted from 1."""

    id: str


class LiveSpeechTiming(msgspec.Struct, kw_only=True):
    ttft_ms: Annotated[float | None, Meta(description="From the first text to the first audio.")]
    audio_ms: float


class LiveSpeechDone(msgspec.Struct, tag="speech.audio.done", kw_only=True):
    """The last event: everything has been spoken."""

    timing: LiveSpeechTiming
