"""What a transcription request asks for, as JSON or as a form."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.audio_source import local_audio
from audiocpp.daemon.http.collect import decoded_format
from audiocpp.daemon.http.json_body import parse_object
from audiocpp.daemon.http.multipart import Form, Part
from audiocpp.daemon.http.transcript_formats import FORMATS, VERBOSE
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.request_fields import Flag, Milliseconds, busy_timeout, flag, language_tag
from audiocpp.daemon.request_options import request_options
from audiocpp.engines.tasks import Mode, TaskRequest

GRANULARITIES = ("segment", "word")
GRANULARITIES_FIELD = "timestamp_granularities"

DETAILED_FORMATS = ("json",)
"""Of the replies that always have all details."""


class TranscriptionBody(msgspec.Struct, kw_only=True):
    """The JSON form; unknown members are ignored, null counts as absent."""

    model: Annotated[str | None, Meta(description="An entry or alias for `asr`; absent: the only one.")] = None
    audio: Annotated[str | None, Meta(description="Path of a recording on the server's machine.")] = None
    audio_path: Annotated[str | None, Meta(description="The same, used when `audio` is absent.")] = None
    file: Annotated[str | None, Meta(description="The same, used when both are absent.")] = None
    file_url: Annotated[str | None, Meta(description="Refused: the server fetches nothing from elsewhere.")] = None
    language: Annotated[str | None, Meta(description="BCP-47, reduced to what the model takes; empty: absent.")] = None
    text: Annotated[str | None, Meta(description="Context for the recognition.")] = None
    prompt: Annotated[str | None, Meta(description="The same, used when `text` is absent.")] = None
    options: Annotated[dict[str, object] | None, Meta(description="Request options of the model.")] = None
    response_format: Annotated[
        str | None, Meta(description="`json` (default), `text`, `srt`, `vtt` or `verbose_json`.")
    ] = None
    timestamp_granularities: Annotated[
        list[str] | None, Meta(description="`segment`, `word`; only with `verbose_json`.")
    ] = None
    stream: Annotated[Flag, Meta(description="Answer with events while the text is made.")] = None
    busy_timeout_ms: Annotated[
        Milliseconds | None, Meta(description="Longest wait for a slot; the model's own is the ceiling.")
    ] = None


class Transcription(msgspec.Struct, frozen=True, kw_only=True):
    """A validated request, without its recording."""

    entry: ModelEntry
    request: TaskRequest
    response_format: str
    granularities: Collection[str]
    stream: bool
    busy_timeout_ms: int | None


def transcription_of(body: TranscriptionBody) -> Transcription:
    """Validates a request for one transcript in one of the formats."""
    _refuse_url(body)
    stream = flag(body.stream, "stream")
    entry = _entry(body.model, stream=stream)
    response_format = _format(body.response_format, accepted=("json", "text") if stream else FORMATS, stream=stream)
    granularities = _granularities(body.timestamp_granularities or [], response_format)
    if "word" in granularities and not entry.spec.declares("words"):
        raise InvalidRequest(f"model {entry.id!r} has no times of words; accepted: segment", param=GRANULARITIES_FIELD)
    words = True if "word" in granularities else None
    return Transcription(
        entry=entry,
        request=_request(body, entry, words=words, mode="streaming" if stream else "offline"),
        response_format=response_format,
        granularities=granularities,
        stream=stream,
        busy_timeout_ms=body.busy_timeout_ms,
    )


def detailed_transcription_of(body: TranscriptionBody) -> Transcription:
    """Validates a request for all that the model tells of a recording: times of words too, where it has them."""
    _refuse_url(body)
    if flag(body.stream, "stream"):
        raise InvalidRequest("stream: details come whole; leave stream out", param="stream")
    entry = _entry(body.model, stream=False)
    words = True if entry.spec.declares("words") else None
    return Transcription(
        entry=entry,
        request=_request(body, entry, words=words, mode="offline"),
        response_format=_format(body.response_format, accepted=DETAILED_FORMATS, stream=False),
        granularities=_granularities(body.timestamp_granularities or [], VERBOSE),
        stream=False,
        busy_timeout_ms=body.busy_timeout_ms,
    )


def _refuse_url(body: TranscriptionBody) -> None:
    """Fetching what a client names would reach whatever this machine can reach."""
    if body.file_url is not None:
        raise InvalidRequest(
            "file_url: nothing is fetched from elsewhere; send the recording as file", param="file_url"
        )


async def json_recording(body: TranscriptionBody) -> Path:
    """The recording that a JSON body names."""
    path = body.audio or body.audio_path or body.file
    if not path:
        raise InvalidRequest("audio is required: the path of a recording on the server's machine", param="audio")
    return await local_audio(path, "audio")


def form_recordings(form: Form) -> list[Part]:
    """The recordings in a form, at least one, none of them empty."""
    files = [part for part in form.parts if part.name == "file"]
    if not files:
        raise InvalidRequest("file is required: a part with the recording", param="file")
    for index, file in enumerate(files):
        if file.empty:
            param = "file" if len(files) == 1 else f"file[{index}]"
            raise InvalidRequest(f"{param} is empty: it has 0 bytes", param=param)
    return files


def form_body(form: Form) -> TranscriptionBody:
    """The fields of a form."""
    options = form.text("options")
    return TranscriptionBody(
        model=form.text("model"),
        file_url=form.text("file_url"),
        language=form.text("language"),
        text=form.text("prompt") or form.text("text"),
        options=parse_object(options.encode(), param="options") if options else None,
        response_format=form.text("response_format"),
        timestamp_granularities=form.texts("timestamp_granularities[]") + form.texts("timestamp_granularities"),
        stream=form.text("stream"),
        busy_timeout_ms=busy_timeout(form.text("busy_timeout_ms")),
    )


def _entry(name: str | None, *, stream: bool) -> ModelEntry:
    entry = backend().services.registry.resolve(name or None, task="asr", mode="offline")
    if stream and "streaming" not in entry.spec.modes:
        raise InvalidRequest(f"model {entry.id!r} cannot stream; leave stream out", param="stream")
    return entry


def _request(body: TranscriptionBody, entry: ModelEntry, *, words: bool | None, mode: Mode) -> TaskRequest:
    return TaskRequest(
        task="asr",
        mode=mode,
        language=language_tag(entry, body.language),
        prompt=body.text or body.prompt or "",
        audio=decoded_format(entry),
        options=request_options(entry, body.options, words=words),
    )


def _format(name: str | None, *, accepted: Collection[str], stream: bool) -> str:
    name = name or "json"
    if name not in accepted:
        at = " with stream" if stream else ""
        raise InvalidRequest(
            f"response_format: {name!r} is not accepted{at}; accepted are {', '.join(accepted)}",
            param="response_format",
        )
    return name


def _granularities(asked: Iterable[str], response_format: str) -> frozenset[str]:
    found = frozenset(asked)
    for name in sorted(found):
        if name not in GRANULARITIES:
            raise InvalidRequest(
                f"timestamp_granularities: {name!r} is none of {', '.join(GRANULARITIES)}",
                param=GRANULARITIES_FIELD,
            )
    if found and response_format != VERBOSE:
        raise InvalidRequest(
            f"timestamp_granularities needs response_format={VERBOSE}, not {response_format}",
            param=GRANULARITIES_FIELD,
        )
    return found
