"""A transcript in the formats of OpenAI's transcription endpoint."""

import math
from collections.abc import Callable, Collection
from typing import Any

from quart import Response

from audiocpp.daemon.http.collect import Recognition
from audiocpp.daemon.http.reply import bytes_reply, json_reply
from audiocpp.engines.tasks import Segment, Word

TEXT_TYPE = "text/plain; charset=utf-8"
VTT_TYPE = "text/vtt; charset=utf-8"
UNKNOWN_SEGMENT_FIELDS = ("seek", "tokens", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob")
"""Whisper's own figures. OpenAI's clients expect the names; no other model has the values."""


def as_json(result: Recognition) -> Response:
    return json_reply({"text": result.text, "timing": result.timing})


def as_text(result: Recognition) -> Response:
    return bytes_reply(f"{result.text}\n".encode(), content_type=TEXT_TYPE)


def as_srt(result: Recognition) -> Response:
    cues = (
        f"{number}\n{_clock(segment.start, ',')} --> {_clock(segment.end, ',')}\n{segment.text.strip()}\n\n"
        for number, segment in enumerate(result.segments, start=1)
    )
    return bytes_reply("".join(cues).encode(), content_type=TEXT_TYPE)


def as_vtt(result: Recognition) -> Response:
    cues = (
        f"\n{_clock(segment.start, '.')} --> {_clock(segment.end, '.')}\n{segment.text.strip()}\n"
        for segment in result.segments
    )
    return bytes_reply(("WEBVTT\n" + "".join(cues)).encode(), content_type=VTT_TYPE)


def verbose_json(result: Recognition, *, language: str, granularities: Collection[str]) -> Response:
    """`words` are there when asked for; `segments` unless only words were asked for."""
    body: dict[str, Any] = {
        "task": "transcribe",
        "language": language or None,
        "duration": result.duration_s,
        "text": result.text,
    }
    if "segment" in granularities or not granularities:
        body["segments"] = [_segment(number, segment) for number, segment in enumerate(result.segments)]
    if "word" in granularities:
        body["words"] = [_word(word) for segment in result.segments for word in segment.words]
    return json_reply({**body, "timing": result.timing})


PLAIN_FORMATS: dict[str, Callable[[Recognition], Response]] = {
    "json": as_json,
    "text": as_text,
    "srt": as_srt,
    "vtt": as_vtt,
}
VERBOSE = "verbose_json"
FORMATS = (*PLAIN_FORMATS, VERBOSE)


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    unknown = dict.fromkeys(UNKNOWN_SEGMENT_FIELDS)
    known = {"id": number, "start": segment.start, "end": segment.end, "text": segment.text}
    return {**known, **unknown, "confidence": segment.confidence}


def _word(word: Word) -> dict[str, Any]:
    return {"word": word.word, "start": word.start, "end": word.end}


def _clock(seconds: float, mark: str) -> str:
    milliseconds = math.floor(seconds * 1000 + 0.5)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
