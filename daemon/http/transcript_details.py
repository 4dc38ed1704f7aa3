"""A transcript with all that the model tells of it: places in samples of the recording."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from audiocpp.daemon.http.sample_rows import SegmentRow, WordRow
from audiocpp.daemon.http.task_result import TaskTiming, audio_timing
from audiocpp.daemon.http.task_runs import Performed


class TranscriptDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text is always there, the other members when there is something in them."""

    text: str
    language: str | None = None
    segments: list[SegmentRow] = []
    words: list[WordRow] = []
    sample_rate: Annotated[
        int | None, Meta(description="Of the recording, in Hz; present with `segments` or `words`.")
    ] = None
    timing: TaskTiming | UnsetType = UNSET


def details_of(done: Performed, *, timed: bool = True) -> TranscriptDetails:
    """`done` is a recognition."""
    result = done.result
    return TranscriptDetails(
        text=result.text or "",
        language=result.language,
        segments=result.segments,
        words=result.words,
        sample_rate=done.rate_hz if result.segments or result.words else None,
        timing=audio_timing(done.wall_ms, done.recording_ms or 0.0) if timed else UNSET,
    )
