"""POST /v1/tasks/run: any task of any entry, one JSON document in and one out."""

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from quart import Blueprint, Response

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.audio_source import base64_audio, local_audio
from audiocpp.daemon.http.body import whole_body
from audiocpp.daemon.http.collect import decoded_format, model_rate_hz, recognise
from audiocpp.daemon.http.json_body import convert, parse_object
from audiocpp.daemon.http.reply import json_reply
from audiocpp.daemon.http.synthesis import synthesize
from audiocpp.daemon.http.voices import voice_for
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.request_fields import Milliseconds, language_tag
from audiocpp.daemon.request_options import COPIED_SCALARS, request_options
from audiocpp.engines.tasks import Segment, TaskRequest, Word

tasks = Blueprint("tasks", __name__)


class TaskBody(msgspec.Struct, kw_only=True):
    """Without `request` the whole body is the request object."""

    model: str
    request: dict[str, Any] | None = None
    busy_timeout_ms: Milliseconds | None = None


class RequestObject(msgspec.Struct, kw_only=True):
    """The members of a request object that the tasks here use."""

    text: Annotated[str | None, Meta(description="The text to speak, or context for the recognition.")] = None
    language: Annotated[str | None, Meta(description="BCP-47.")] = None
    audio: Annotated[str | None, Meta(description="Path of a recording on the server's machine.")] = None
    audio_base64: Annotated[str | None, Meta(description="The recording itself, or a `data:` URI of it.")] = None
    voice_id: Annotated[str | None, Meta(description="A voice of the model.")] = None
    options: Annotated[dict[str, object] | None, Meta(description="Request options of the model.")] = None


@tasks.post("/v1/tasks/run")
async def run_any_task() -> Response:
    """Runs the task of any entry: JSON in, JSON out."""
    document = parse_object(bytes(await whole_body()))
    body = convert(document, TaskBody)
    at = "" if body.request is None else ".request"
    members = document if body.request is None else body.request
    asked = convert(members, RequestObject, at=at)
    asked.options = (asked.options or {}) | {name: members[name] for name in COPIED_SCALARS if name in members}
    entry = backend().services.registry.find(body.model)
    run = _TASKS.get(entry.task)
    if run is None:
        raise InvalidRequest(f"model {entry.id!r} does {entry.task}, which this route does not run", param="model")
    return json_reply(await run(entry, asked, body.busy_timeout_ms))


async def _hear(entry: ModelEntry, asked: RequestObject, busy_timeout_ms: int | None) -> dict[str, Any]:
    """Recognition and voice activity: audio in, text or stretches of speech out."""
    source = await _audio(asked)
    request = TaskRequest(
        task=entry.task,
        language=language_tag(entry, asked.language),
        prompt=asked.text or "",
        audio=decoded_format(entry),
        options=request_options(entry, asked.options),
    )
    codecs = backend().services.codecs
    async with codecs.decode(source, sample_rate=model_rate_hz(entry), max_seconds=entry.max_audio_s) as audio:
        result = await recognise(entry, request, audio, busy_timeout_ms=busy_timeout_ms)
        rate_hz = audio.info.sample_rate
    body: dict[str, Any] = {"text": result.text} if entry.task == "asr" else {}
    if result.segments:
        body["segments"] = [_segment(segment, rate_hz) for segment in result.segments]
    if words := [_word(word, rate_hz) for segment in result.segments for word in segment.words]:
        body["words"] = words
    return {**body, "timing": {"wall_ms": result.wall_ms}}


async def _speak(entry: ModelEntry, asked: RequestObject, busy_timeout_ms: int | None) -> dict[str, Any]:
    """Speech: text in, a WAV file in base64 out."""
    if not (asked.text or "").strip():
        raise InvalidRequest("text is required: there is nothing to speak", param="text")
    voice = await voice_for(entry, asked.voice_id)
    request = TaskRequest(
        task="tts",
        text=asked.text or "",
        language=language_tag(entry, asked.language),
        voice=voice.voice_id,
        options=request_options(entry, asked.options),
    )
    made = await synthesize(entry, request, container="wav", busy_timeout_ms=busy_timeout_ms)
    return {
        "audio": base64.b64encode(made.data).decode(),
        "sample_rate": made.audio.sample_rate,
        "channels": made.audio.channels,
        "timing": made.timing,
    }


RunOne = Callable[[ModelEntry, RequestObject, int | None], Awaitable[dict[str, Any]]]

_TASKS: dict[str, RunOne] = {"asr": _hear, "vad": _hear, "tts": _speak}


async def _audio(asked: RequestObject) -> bytes | Path:
    if asked.audio and asked.audio_base64 is not None:
        raise InvalidRequest("audio and audio_base64 are both set; send one of them", param="audio_base64")
    if asked.audio_base64 is not None:
        return base64_audio(asked.audio_base64, "audio_base64")
    if not asked.audio:
        raise InvalidRequest("audio or audio_base64 is required: the recording to work on", param="audio")
    return await local_audio(asked.audio, "audio")


def _segment(segment: Segment, rate_hz: int) -> dict[str, Any]:
    row: dict[str, Any] = {"start_sample": round(segment.start * rate_hz), "end_sample": round(segment.end * rate_hz)}
    if segment.confidence is not None:
        row["confidence"] = segment.confidence
    if segment.text:
        row["text"] = segment.text
    return row


def _word(word: Word, rate_hz: int) -> dict[str, Any]:
    row = {"word": word.word, "start_sample": round(word.start * rate_hz), "end_sample": round(word.end * rate_hz)}
    return row if word.confidence is None else {**row, "confidence": word.confidence}
