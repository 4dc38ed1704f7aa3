"""What the task routes answer with: the result of a run, and the events of a run in progress."""

import base64
import io
import wave
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from audiocpp.daemon.http.sample_rows import SegmentRow, WordRow, segment_rows, word_rows
from audiocpp.engines.tasks import AudioFormat, Segment, TaskEvent, TextDelta

Milliseconds = float | UnsetType
WavFile = Annotated[str | None, Meta(description="A WAV file in base64.")]


class TaskTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Of a run: `wall_ms`, and the other two when there is audio. Of a streamed one: `ttft_ms` only."""

    wall_ms: Annotated[Milliseconds, Meta(description="The run, without waiting and loading.")] = UNSET
    audio_duration_ms: Annotated[Milliseconds, Meta(description="Length of the audio.")] = UNSET
    rtf: Annotated[float | UnsetType, Meta(description="`wall_ms` by `audio_duration_ms`; 0 for no audio.")] = UNSET
    ttft_ms: Annotated[
        float | UnsetType | None, Meta(description="From the request to its first event; null when there was none.")
    ] = UNSET


def audio_timing(wall_ms: float, duration_ms: float) -> TaskTiming:
    """With audio of that length; `rtf` is 0 for none."""
    return TaskTiming(wall_ms=wall_ms, audio_duration_ms=duration_ms, rtf=wall_ms / duration_ms if duration_ms else 0.0)


class TaskResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a task: the members that it has. What is empty is absent, so silence has no `segments`."""

    text: str | None = None
    language: str | None = None
    audio: WavFile = None
    sample_rate: Annotated[int | None, Meta(description="Of `audio`, in Hz.")] = None
    channels: Annotated[int | None, Meta(description="Of `audio`.")] = None
    segments: list[SegmentRow] = []
    words: list[WordRow] = []
    timing: Annotated[TaskTiming | None, Meta(description="Null for a request of a batch.")]


class PartialText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Text that follows the text of the events before and does not change any more."""

    text: str
    language: str | None = None


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a result."""

    partial_text: PartialText | None = None
    audio: WavFile = None
    segments: list[SegmentRow] = []
    word_timestamps: list[WordRow] = []
    is_final: Annotated[bool, Meta(description="True for the last event, which has nothing else.")]


FINAL = StreamEvent(is_final=True)


def heard(event: TaskEvent, *, rate_hz: int, language: str | None) -> StreamEvent | None:
    """An event of a task that listens, as clients see it; None for one that they do not see."""
    match event:
        case TextDelta(text) if text:
            return StreamEvent(partial_text=PartialText(text=text, language=language), is_final=False)
        case Segment():
            return StreamEvent(
                segments=segment_rows([event], rate_hz), word_timestamps=word_rows([event], rate_hz), is_final=False
            )
        case _:
            return None


def transcribed(text: str, segments: Sequence[Segment], *, rate_hz: int, language: str | None) -> TaskResult:
    """The result of a recognition."""
    return TaskResult(
        text=text,
        language=language,
        segments=segment_rows(segments, rate_hz),
        words=word_rows(segments, rate_hz),
        timing=None,
    )


def found(segments: Sequence[Segment], *, rate_hz: int) -> TaskResult:
    """The result of a task that finds places in a recording."""
    return TaskResult(segments=segment_rows(segments, rate_hz), words=word_rows(segments, rate_hz), timing=None)


def spoken(pcm: bytes, audio: AudioFormat) -> TaskResult:
    """The result of a task that speaks."""
    return TaskResult(audio=wav_base64(pcm, audio), sample_rate=audio.sample_rate, channels=audio.channels, timing=None)


def wav_base64(pcm: bytes, audio: AudioFormat) -> str:
    """16-bit PCM as a WAV file in base64."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(audio.channels)
        out.setsampwidth(2)
        out.setframerate(audio.sample_rate)
        out.writeframes(pcm)
    return base64.b64encode(file.getvalue()).decode()
