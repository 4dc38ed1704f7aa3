"""POST /v1/audio/transcriptions and /details: a recording, by multipart or by a path on this machine, to its text."""

from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import msgspec
import trio
from quart import Blueprint, Response

from audiocpp.daemon.backend import backend
from audiocpp.daemon.codecs import DecodedAudio
from audiocpp.daemon.http.collect import model_rate_hz, recognise, run_on_audio, spoken_language
from audiocpp.daemon.http.json_body import read_json
from audiocpp.daemon.http.multipart import Part, is_multipart, read_form
from audiocpp.daemon.http.reply import json_reply
from audiocpp.daemon.http.sse import Stream, streamed_reply
from audiocpp.daemon.http.task_request import Task
from audiocpp.daemon.http.task_runs import perform
from audiocpp.daemon.http.transcript_details import details_of
from audiocpp.daemon.http.transcript_formats import PLAIN_FORMATS, VERBOSE, verbose_json
from audiocpp.daemon.http.transcription_request import (
    Transcription,
    TranscriptionBody,
    detailed_transcription_of,
    form_body,
    form_recordings,
    json_recording,
    transcription_of,
)
from audiocpp.engines.tasks import TaskEvent, TextDelta

transcriptions = Blueprint("transcriptions", __name__)


@transcriptions.post("/v1/audio/transcriptions")
async def create_transcription() -> Response:
    """Turns a recording into text."""
    body, file = await _read()
    wanted = transcription_of(body)
    source, _ = await _recording(body, file)
    if wanted.stream:
        return await streamed_reply(partial(_stream, wanted, source))
    async with _decoded(wanted, source) as audio:
        result = await recognise(wanted.entry, wanted.request, audio, busy_timeout_ms=wanted.busy_timeout_ms)
    if wanted.response_format == VERBOSE:
        language = spoken_language(wanted.entry, wanted.request)
        return verbose_json(result, language=language, granularities=wanted.granularities)
    return PLAIN_FORMATS[wanted.response_format](result)


@transcriptions.post("/v1/audio/transcriptions/details")
async def create_detailed_transcription() -> Response:
    """Turns a recording into text, with the places of segments and words in its samples."""
    body, file = await _read()
    wanted = detailed_transcription_of(body)
    source, param = await _recording(body, file)
    task = Task(entry=wanted.entry, request=wanted.request, source=source, source_param=param)
    done = await perform(task, busy_timeout_ms=wanted.busy_timeout_ms)
    return json_reply(msgspec.to_builtins(details_of(done)))


async def _read() -> tuple[TranscriptionBody, Part | None]:
    """The request's fields, and the recording if it came in a form."""
    if not is_multipart():
        return await read_json(TranscriptionBody), None
    form = await read_form(files=("file",))
    (file,) = form_recordings(form)
    return form_body(form), file


async def _recording(body: TranscriptionBody, file: Part | None) -> tuple[bytes | Path, str]:
    """The recording, and the field that it came in."""
    return (await json_recording(body), "audio") if file is None else (file.source, "file")


async def _stream(wanted: Transcription, source: bytes | Path, stream: Stream) -> None:
    started = trio.current_time()
    text = ""
    ttft_ms: float | None = None
    async with _decoded(wanted, source) as audio:
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


def _decoded(wanted: Transcription, source: bytes | Path) -> AbstractAsyncContextManager[DecodedAudio]:
    """Bad audio ends here, before any load."""
    return backend().services.codecs.decode(
        source, sample_rate=model_rate_hz(wanted.entry), max_seconds=wanted.entry.max_audio_s
    )
