"""Segments and words as replies in samples have them: offsets count from the first sample of the client's recording."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from audiocpp.engines.tasks import Segment, Word

Offset = Annotated[int, Meta(description="In samples of the recording, at its own rate.")]
Confidence = Annotated[float | None, Meta(description="0 to 1; absent where the model has none.")]


class WordRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A word and where it was heard."""

    word: str
    start_sample: Offset
    end_sample: Offset
    confidence: Confidence = None


class SegmentRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stretch of speech."""

    start_sample: Offset
    end_sample: Offset
    confidence: Confidence = None
    text: Annotated[str, Meta(description="Absent where nothing was recognised in it.")] = ""


def segment_rows(segments: Sequence[Segment], rate_hz: int) -> list[SegmentRow]:
    """`rate_hz` is that of the client's recording."""
    return [
        SegmentRow(
            start_sample=round(segment.start * rate_hz),
            end_sample=round(segment.end * rate_hz),
            confidence=segment.confidence,
            text=segment.text,
        )
        for segment in segments
    ]


def word_rows(segments: Sequence[Segment], rate_hz: int) -> list[WordRow]:
    """The words of all segments, in order."""
    return [_word_row(word, rate_hz) for segment in segments for word in segment.words]


def _word_row(word: Word, rate_hz: int) -> WordRow:
    return WordRow(
        word=word.word,
        start_sample=round(word.start * rate_hz),
        end_sample=round(word.end * rate_hz),
        confidence=word.confidence,
    )
