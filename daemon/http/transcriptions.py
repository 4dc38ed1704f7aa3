"""POST /v1/audio/transcriptions: a recording, by multipart or by a path on this machine, to its text."""

from collections.abc import Collection, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from msgspec import Meta
from quart import Blueprint, Response

from audiocpp.daemon.backend import backend
from audiocpp.daemon.codecs import DecodedAudio
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.audio_source import local_audio
from audiocpp.daemon.http.collect import decoded_format, model_rate_hz, recognise, run_on_audio
from audiocpp.daemon.http.json_body import parse_object, read_json
from audiocpp.daemon.http.multipart import Form, is_multipart, read_form
from audiocpp.daemon.http.sse import Stream, streamed_reply
from audiocpp.daemon.http.transcript_formats import FORMATS, PLAIN_FORMATS, VERBOSE, verbose_json
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.request_fields import Flag, Milliseconds, busy_timeout, flag, language_tag
from audiocpp.daemon.request_options import request_options
from audiocpp.engines.tasks import Mode, TaskEvent, TaskRequest, TextDelta

transcriptions = Blueprint("transcriptions", __name__)

GRANULARITIES = ("segment", "word")
GRANULARITIES_FIELD = "timestamp_granularities"


class TranscriptionBody(msgspec.Struct, kw_only=True):
    """The JSON form; unknown members are ignored, null counts as absent."""

    model: Annotated[str | None, Meta(description="An entry or alias for `asr`; absent: the only one.")] = None
    audio: Annotated[str | None, Meta(description="Path of a recording on the server's machine.")] = None
    audio_path: Annotated[str | None, Meta(description="The same, used when `audio` is absent.")] = None
    file: Annotated[str | None, Meta(description="The same, used when both are absent.")] = None
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
    """A validated request. `source` is readable as long as the request is served."""

    entry: ModelEntry
    source: bytes | Path
    request: TaskRequest
    response_format: str
    granularities: Collection[str]
    stream: bool
    busy_timeout_ms: int | None


@transcriptions.post("/v1/audio/transcriptions")
async def create_transcription() -> Response:
    """Turns a recording into text."""
    if is_multipart():
        wanted = _from_form(await read_form(files=("file",)))
    else:
        wanted = await _from_json(await read_json(TranscriptionBody))
    if wanted.stream:
        return await streamed_reply(lambda stream: _stream(wanted, stream))
    async with _decoded(wanted) as audio:
        result = await recognise(wanted.entry, wanted.request, audio, busy_timeout_ms=wanted.busy_timeout_ms)
    if wanted.response_format == VERBOSE:
        return verbose_json(result, language=_spoken(wanted), granularities=wanted.granularities)
    return PLAIN_FORMATS[wanted.response_format](result)


async def _stream(wanted: Transcription, stream: Stream) -> None:
    started = trio.current_time()
    text = ""
    ttft_ms: float | None = None
    async with _decoded(wanted) as audio:
        if audio.empty:
            stream.begin()
        else:
            async with backend().run(wanted.entry, wanted.request, busy_timeout_ms=wanted.busy_timeout_ms) as run:
                stream.begin()

                async def forward(event: TaskEvent) -> None:
                    nonlocal text, ttft_ms
                    if isinstance(event, TextDelta) and event.text:
                        ttft_ms = ttft_ms or (trio.current_time() - started) * 1e3
                        text += event.text
                        await stream.emit_event({"type": "transcript.text.delta", "delta": event.text})

                await run_on_audio(run, audio, forward)
    await stream.emit_event({"type": "transcript.text.done", "text": text, "timing": {"ttft_ms": ttft_ms}})


def _decoded(wanted: Transcription) -> AbstractAsyncContextManager[DecodedAudio]:
    """Bad audio ends here, before any load."""
    return backend().services.codecs.decode(
        wanted.source, sample_rate=model_rate_hz(wanted.entry), max_seconds=wanted.entry.max_audio_s
    )


async def _from_json(body: TranscriptionBody) -> Transcription:
    path = body.audio or body.audio_path or body.file
    if not path:
        raise InvalidRequest("audio is required: the path of a recording on the server's machine", param="audio")
    stream = flag(body.stream, "stream")
    entry = _entry(body.model, stream=stream)
    response_format = _format(body.response_format, stream=stream)
    granularities = _granularities(body.timestamp_granularities or [], response_format)
    return Transcription(
        entry=entry,
        source=await local_audio(path, "audio"),
        request=_request(entry, body.language, body.text or body.prompt, body.options, granularities, stream=stream),
        response_format=response_format,
        granularities=granularities,
        stream=stream,
        busy_timeout_ms=body.busy_timeout_ms,
    )


def _from_form(form: Form) -> Transcription:
    file = form.last("file")
    if file is None:
        raise InvalidRequest("file is required: a part with the recording", param="file")
    if file.empty:
        raise InvalidRequest("file is empty: it has 0 bytes", param="file")
    stream = flag(form.text("stream"), "stream")
    entry = _entry(form.text("model"), stream=stream)
    response_format = _format(form.text("response_format"), stream=stream)
    asked = form.texts("timestamp_granularities[]") + form.texts("timestamp_granularities")
    granularities = _granularities(asked, response_format)
    options = form.text("options")
    prompt = form.text("prompt") or form.text("text")
    return Transcription(
        entry=entry,
        source=file.source,
        request=_request(
            entry,
            form.text("language"),
            prompt,
            parse_object(options.encode(), param="options") if options else None,
            granularities,
            stream=stream,
        ),
        response_format=response_format,
        granularities=granularities,
        stream=stream,
        busy_timeout_ms=busy_timeout(form.text("busy_timeout_ms")),
    )


def _entry(name: str | None, *, stream: bool) -> ModelEntry:
    entry = backend().services.registry.resolve(name or None, task="asr", mode="offline")
    if stream and "streaming" not in entry.spec.modes:
        raise InvalidRequest(f"model {entry.id!r} cannot stream; leave stream out", param="stream")
    return entry


def _request(
    entry: ModelEntry,
    language: str | None,
    prompt: str | None,
    options: dict[str, object] | None,
    granularities: Collection[str],
    *,
    stream: bool,
) -> TaskRequest:
    if "word" in granularities and not _declares(entry, "words"):
        raise InvalidRequest(f"model {entry.id!r} has no times of words; accepted: segment", param=GRANULARITIES_FIELD)
    words = {"words": True} if "word" in granularities else {}
    mode: Mode = "streaming" if stream else "offline"
    return TaskRequest(
        task="asr",
        mode=mode,
        language=language_tag(entry, language),
        prompt=prompt or "",
        audio=decoded_format(entry),
        options=request_options(entry, options, **words),
    )


def _declares(entry: ModelEntry, option: str) -> bool:
    return any(row.name == option for row in entry.spec.options.request)


def _format(name: str | None, *, stream: bool) -> str:
    name = name or "json"
    accepted = ("json", "text") if stream else FORMATS
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


def _spoken(wanted: Transcription) -> str:
    """The language of the transcript, where it is known without detection."""
    languages = wanted.entry.package.languages or wanted.entry.spec.languages
    return wanted.request.language or (languages[0] if len(languages) == 1 else "")
