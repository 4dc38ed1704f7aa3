"""POST /v1/audio/speech: text to a file of speech, or to a stream of it while it is being made."""

import base64
import string
from contextlib import AbstractAsyncContextManager
from functools import partial
from urllib.parse import quote

import trio
from quart import Blueprint, Response

from audiocpp.daemon.http.json_body import read_json
from audiocpp.daemon.http.reply import file_json_reply, file_reply
from audiocpp.daemon.http.speech_request import CONTENT_TYPES, JSON_FORMATS, Speech, SpeechBody, speech_of
from audiocpp.daemon.http.sse import Stream, streamed_reply
from audiocpp.daemon.http.synthesis import encode_run, open_synthesis, synthesize
from audiocpp.daemon.tasks import TaskRun

speech = Blueprint("speech", __name__)

VOICE_HEADER = "X-AudioCPP-Voice"
"""What speaks: a voice of the model, a preset, a recording. Letters beyond ASCII are percent-encoded in UTF-8."""

_PLAIN = string.punctuation.replace("%", "") + " "

BUFFERED_PIECES = 2
"""A piece may be the audio of a long sentence."""

STREAMED_CONTENT_TYPES = CONTENT_TYPES | {"pcm": "application/octet-stream"}


@speech.post("/v1/audio/speech")
async def create_speech() -> Response:
    """Speaks a text: a file, or a stream while it is made."""
    wanted = await speech_of(await read_json(SpeechBody))
    headers = {VOICE_HEADER: quote(wanted.voice, safe=_PLAIN)}
    if wanted.stream_format == "sse":
        produce = partial(_stream_events, wanted)
        return await streamed_reply(produce, headers=headers, buffered_pieces=BUFFERED_PIECES)
    if wanted.stream_format:
        content_type = STREAMED_CONTENT_TYPES[wanted.response_format]
        produce = partial(_stream_audio, wanted)
        return await streamed_reply(
            produce, content_type=content_type, headers=headers, buffered_pieces=BUFFERED_PIECES
        )
    response = await _buffered(wanted)
    response.headers.update(headers)
    return response


async def _buffered(wanted: Speech) -> Response:
    as_json = wanted.response_format in JSON_FORMATS
    container = "wav" if as_json else wanted.response_format
    made = await synthesize(wanted.entry, wanted.request, container=container, busy_timeout_ms=wanted.busy_timeout_ms)
    if as_json:
        return file_json_reply("audio", made.file, {"format": container, "timing": made.timing})
    headers = {
        "X-AudioCPP-Wall-Ms": f"{made.wall_ms:.6f}",
        "X-AudioCPP-Audio-Duration-Ms": f"{made.duration_ms:.6f}",
        "X-AudioCPP-RTF": f"{made.rtf:.6f}",
    }
    return file_reply(made.file, content_type=CONTENT_TYPES[container], headers=headers)


async def _stream_events(wanted: Speech, stream: Stream) -> None:
    """The reply begins with the first audio: text that cannot be spoken still gets its status."""
    started = trio.current_time()
    ttft_ms: float | None = None
    async with _open(wanted) as run:

        async def forward(piece: bytes) -> None:
            nonlocal ttft_ms
            ttft_ms = ttft_ms or (trio.current_time() - started) * 1e3
            await stream.emit_event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})

        await encode_run(run, wanted.response_format, forward)
    await stream.emit_event({"type": "speech.audio.done", "timing": {"ttft_ms": ttft_ms}})


async def _stream_audio(wanted: Speech, stream: Stream) -> None:
    async with _open(wanted) as run:
        await encode_run(run, wanted.response_format, stream.emit)


def _open(wanted: Speech) -> AbstractAsyncContextManager[TaskRun]:
    return open_synthesis(wanted.entry, wanted.request, busy_timeout_ms=wanted.busy_timeout_ms)
