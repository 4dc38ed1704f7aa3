"""The rows of the live routes in the table of routes."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from audiocpp.daemon.errors import (
    DaemonError,
    InsufficientMemory,
    ModelFailed,
    ModelNotFound,
    ModelNotInstalled,
    NotFound,
    ServerBusy,
    ShuttingDown,
    WorkerDied,
)
from audiocpp.daemon.http.openapi import events as on_the_wire
from audiocpp.daemon.http.openapi.realtime_events import CLIENT_EVENTS, SERVER_EVENTS
from audiocpp.daemon.http.openapi.route import EVENTS, Content, Messages, Parameter, Reply, Route
from audiocpp.daemon.live.close_codes import CLOSE_CODES
from audiocpp.daemon.live.parameters import SAMPLE_FORMATS
from audiocpp.daemon.request_fields import Milliseconds
from audiocpp.daemon.request_options import COPIED_SCALARS

FlagText = Annotated[str, Meta(description="`true`, `false`, `1` or `0`.")]

_IN_THE_WAY: tuple[type[DaemonError], ...] = (
    ModelNotFound,
    ModelNotInstalled,
    ModelFailed,
    ServerBusy,
    InsufficientMemory,
    ShuttingDown,
    WorkerDied,
)
"""What can be said before the session is open."""

_BUSY_TIMEOUT = Parameter("busy_timeout_ms", Milliseconds, "Longest wait for a slot; the model's own is the ceiling.")

_AUDIO = (
    Parameter("model", str, "An entry with `mode` `streaming`; absent: the only one."),
    Parameter("sample_rate", Annotated[int, Meta(ge=1000, le=384_000)], "Of the audio, in Hz.", 16_000),
    Parameter("channels", Annotated[int, Meta(ge=1, le=16)], "Mixed down.", 1),
    Parameter("sample_format", Literal[SAMPLE_FORMATS], "Of the samples.", "s16le"),
    Parameter("language", str, "BCP-47, reduced to what the model takes."),
    Parameter("prompt", str, "Context for the recognition."),
    Parameter("partials", FlagText, "Also send the guess at the text in progress.", "false"),
    Parameter("words", FlagText, "Times of words in segments, where the model has them.", "false"),
    Parameter("vad", Literal["on", "off"], "`off`: the client finalizes.", "on"),
    Parameter("endpoint_silence_ms", int, "Silence that ends an utterance; absent: the model's own."),
    _BUSY_TIMEOUT,
)

_RESUME = (
    Parameter("session_id", str, "Goes on with this session, whose connection broke; the others then do not count."),
    Parameter("offset", Annotated[int, Meta(ge=0)], "The sample that the client goes on with; see `next_sample`."),
)

_KEY = Parameter("api_key", str, "For browsers, which cannot send a key in a header.")

_TOLD: tuple[type[msgspec.Struct], ...] = (
    on_the_wire.SessionCreated,
    on_the_wire.SpeechStarted,
    on_the_wire.TextPartial,
    on_the_wire.TextDelta,
    on_the_wire.LiveSegment,
    on_the_wire.SpeechStopped,
    on_the_wire.Finalized,
    on_the_wire.LiveDone,
    on_the_wire.LiveErrorEvent,
)

_VOICE = (
    Parameter("model", str, "An entry or alias for `tts`; absent: the only one."),
    Parameter("voice", str, "As for `POST /v1/audio/speech`."),
    Parameter("language", str, "BCP-47, reduced to what the model speaks."),
    Parameter("speed", float, "Rate of speech, where the model has one."),
    Parameter("instructions", str, "Sets the option `instruction`."),
    *(Parameter(name, str, "Sets the option of the same name.") for name in COPIED_SCALARS),
    _BUSY_TIMEOUT,
)

LIVE_ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/live"): Route(tag="Daemon", reply=Reply("A page.", (Content("text/html"),)), open=True),
    ("GET", "/live/{name}"): Route(
        tag="Daemon",
        reply=Reply("A file.", (Content("text/javascript"), Content("text/css"))),
        errors=(NotFound,),
        open=True,
    ),
    ("WEBSOCKET", "/v1/audio/transcriptions/live"): Route(
        tag="Transcription",
        status=101,
        query=(*_AUDIO, *_RESUME, _KEY),
        reply=Reply("The session is open: a slot is taken and the model loaded."),
        messages=Messages(
            "PCM of any size; a sample may be split between two frames.",
            (on_the_wire.Finalize, on_the_wire.End, on_the_wire.KeepAlive),
            _TOLD,
            CLOSE_CODES,
        ),
        errors=(*_IN_THE_WAY, NotFound),
    ),
    ("POST", "/v1/audio/transcriptions/live"): Route(
        tag="Transcription",
        query=_AUDIO,
        body=(Content("application/octet-stream"),),
        reply=Reply("Events while the audio comes.", (Content(EVENTS, events=_TOLD),)),
        errors=_IN_THE_WAY,
    ),
    ("WEBSOCKET", "/v1/realtime"): Route(
        tag="Transcription",
        status=101,
        query=(
            Parameter("intent", Literal["transcription"], "What is done here.", "transcription"),
            Parameter("model", str, "An entry with `mode` `streaming`; absent: the only one, or the session says it."),
            _BUSY_TIMEOUT,
            _KEY,
        ),
        reply=Reply("The session is open: a slot is taken and the model loaded, if one is known."),
        messages=Messages("Not understood.", CLIENT_EVENTS, SERVER_EVENTS, CLOSE_CODES),
        errors=_IN_THE_WAY,
    ),
    ("WEBSOCKET", "/v1/audio/speech/live"): Route(
        tag="Speech",
        status=101,
        query=(*_VOICE, _KEY),
        reply=Reply("The session is open: a slot is taken and the model loaded."),
        messages=Messages(
            "Not understood. The binary messages that come back are 16-bit PCM in whole samples.",
            (on_the_wire.SpeechText, on_the_wire.Flush, on_the_wire.End, on_the_wire.KeepAlive),
            (
                on_the_wire.SpeechCreated,
                on_the_wire.Flushed,
                on_the_wire.LiveSpeechDone,
                on_the_wire.LiveErrorEvent,
            ),
            CLOSE_CODES,
        ),
        errors=_IN_THE_WAY,
    ),
    ("POST", "/v1/audio/speech/live"): Route(
        tag="Speech",
        status=400,
        query=(
            *_AUDIO[:4],
            Parameter("input", str, "The text to speak.", required=True),
            Parameter("response_format", Literal["pcm"], "Of the speech.", "pcm"),
            Parameter("stream_format", Literal["sse", "audio"], "Of the reply.", "sse"),
            Parameter("return_text", FlagText, "Events of the text too.", "false"),
            *_VOICE[1:],
        ),
        body=(Content("application/octet-stream"),),
        reply=Reply("The model takes no audio."),
        errors=(ModelNotFound,),
    ),
}
