"""The table of routes: what each takes and answers, beside the first lines of its function."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from audiocpp.daemon.errors import (
    BodyTooLarge,
    DaemonError,
    InsufficientMemory,
    InvalidRequest,
    ModelFailed,
    ModelNotFound,
    ModelNotInstalled,
    NotFound,
    RequestTimeout,
    RunFailed,
    ServerBusy,
    ShuttingDown,
    UnsupportedMedia,
    WorkerDied,
)
from audiocpp.daemon.http.batches import TaskBatchBody
from audiocpp.daemon.http.models import UnloadBody
from audiocpp.daemon.http.openapi import events as on_the_wire
from audiocpp.daemon.http.openapi import replies
from audiocpp.daemon.http.openapi.live_routes import LIVE_ROUTES
from audiocpp.daemon.http.openapi.route import EVENTS, FORM, JSON, Content, Parameter, Reply, Route
from audiocpp.daemon.http.speech_request import CONTENT_TYPES, SpeechBody
from audiocpp.daemon.http.task_request import RequestObject
from audiocpp.daemon.http.task_result import TaskResult
from audiocpp.daemon.http.tasks import TaskBody, TaskStreamBody, TaskStreamReply
from audiocpp.daemon.http.transcript_details import TranscriptDetails
from audiocpp.daemon.http.transcription_request import TranscriptionBody
from audiocpp.daemon.request_fields import Milliseconds

ErrorKinds = tuple[type[DaemonError], ...]

EVERYWHERE: ErrorKinds = (InvalidRequest,)
"""Beside those of the guards: a request that is no HTTP, or that sends a value which cannot be read."""

_BODY: ErrorKinds = (RequestTimeout, BodyTooLarge)
_RUN: ErrorKinds = (
    ModelNotFound,
    ModelNotInstalled,
    RequestTimeout,
    ModelFailed,
    ServerBusy,
    InsufficientMemory,
    ShuttingDown,
    RunFailed,
    WorkerDied,
)
_AUDIO: ErrorKinds = (UnsupportedMedia,)

FilePart = Annotated[str, Meta(extra_json_schema={"contentMediaType": "application/octet-stream"})]
FlagText = Annotated[str, Meta(description="`true`, `false`, `1` or `0`.")]
JsonText = Annotated[str, Meta(extra_json_schema={"contentMediaType": JSON})]


class TranscriptionForm(msgspec.Struct, kw_only=True):
    """The form; of a repeated part the last counts."""

    file: Annotated[FilePart, Meta(description="The recording, recognised by its content.")]
    model: Annotated[str, Meta(description="An entry or alias for `asr`; absent: the only one.")] = ""
    language: Annotated[str, Meta(description="BCP-47, reduced to what the model takes.")] = ""
    prompt: Annotated[str, Meta(description="Context for the recognition.")] = ""
    text: Annotated[str, Meta(description="The same, used when `prompt` is absent.")] = ""
    response_format: Annotated[str, Meta(description="`json` (default), `text`, `srt`, `vtt` or `verbose_json`.")] = ""
    timestamp_granularities: Annotated[
        list[str], Meta(description="`segment`, `word`; only with `verbose_json`; with or without brackets.")
    ] = field(name="timestamp_granularities[]", default_factory=list)
    options: Annotated[JsonText, Meta(description="Request options of the model, a JSON object.")] = ""
    stream: Annotated[FlagText, Meta(description="Answer with events while the text is made.")] = ""
    busy_timeout_ms: Annotated[
        Milliseconds | None, Meta(description="Longest wait for a slot; the model's own is the ceiling.")
    ] = None


class BatchForm(msgspec.Struct, kw_only=True):
    """Several recordings for one model."""

    file: Annotated[list[FilePart], Meta(min_length=1, description="The recordings, a part each.")]
    model: Annotated[str, Meta(description="An offline entry for `asr`; absent: the only one.")] = ""
    language: Annotated[str, Meta(description="BCP-47, of all recordings.")] = ""
    prompt: Annotated[str, Meta(description="Context for the recognition of all.")] = ""
    text: Annotated[str, Meta(description="The same, used when `prompt` is absent.")] = ""
    options: Annotated[JsonText, Meta(description="Request options of the model, a JSON object.")] = ""
    busy_timeout_ms: Annotated[
        Milliseconds | None, Meta(description="Longest wait for the first slot; the model's own is the ceiling.")
    ] = None


def json_reply(kind: type[msgspec.Struct], description: str) -> Reply:
    return Reply(description, (Content(JSON, kind),))


def stream_of(*events: type[msgspec.Struct]) -> Content:
    """Events, each a line of JSON, `[DONE]` after the last."""
    return Content(EVENTS, events=(*events, on_the_wire.ErrorEvent))


_INCLUDES = tuple(
    Parameter(name, Literal["true", "1", "false", "0"], description)
    for name, description in (
        ("include_params", "Adds `params` and `spec`."),
        ("include_session_options", "Adds `session_options`."),
    )
)

_TRANSCRIPT = Reply(
    "The text, in the form that `response_format` names.",
    (
        Content(JSON, (replies.TranscriptionReply, replies.VerboseReply)),
        Content("text/plain"),
        Content("text/vtt"),
        stream_of(on_the_wire.TextDelta, on_the_wire.TranscriptDone),
    ),
)

_SPEECH = Reply(
    "The speech, in the form that `response_format` and `stream_format` name.",
    (
        *(Content(media_type) for media_type in CONTENT_TYPES.values()),
        Content("application/octet-stream"),
        Content(JSON, replies.SpeechReply),
        stream_of(on_the_wire.SpeechDelta, on_the_wire.SpeechDone),
    ),
    {
        "X-AudioCPP-Wall-Ms": "Time of the run; of whole files.",
        "X-AudioCPP-Audio-Duration-Ms": "Length of the speech; of whole files.",
        "X-AudioCPP-RTF": "The first divided by the second; of whole files.",
    },
)

ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/health"): Route(tag="Daemon", reply=json_reply(replies.HealthReply, "It serves."), open=True),
    ("GET", "/"): Route(tag="Daemon", reply=Reply("A page.", (Content("text/html"),))),
    ("GET", "/openapi.json"): Route(
        tag="Daemon", reply=Reply("An OpenAPI document.", (Content(JSON, dict[str, object]),)), open=True
    ),
    ("GET", "/docs"): Route(tag="Daemon", reply=Reply("A page.", (Content("text/html"),)), open=True),
    ("GET", "/metrics"): Route(tag="Daemon", reply=Reply("Prometheus' text format.", (Content("text/plain"),))),
    ("GET", "/v1/devices"): Route(tag="Daemon", reply=json_reply(replies.DevicesReply, "The devices.")),
    ("GET", "/v1/models"): Route(tag="Models", query=_INCLUDES, reply=json_reply(replies.ModelsReply, "All entries.")),
    ("GET", "/v1/models/{model_id}"): Route(
        tag="Models",
        query=_INCLUDES,
        reply=json_reply(replies.ModelRow, "The entry."),
        errors=(ModelNotFound, NotFound),
    ),
    ("POST", "/v1/tasks/unload_models"): Route(
        tag="Models",
        body=(Content(JSON, UnloadBody),),
        reply=json_reply(replies.UnloadReply, "They are out of memory."),
        errors=(*_BODY, ServerBusy),
    ),
    ("POST", "/v1/tasks/unload_all_models"): Route(
        tag="Models",
        reply=json_reply(replies.UnloadAllReply, "They are out of memory."),
        errors=(*_BODY, ServerBusy),
    ),
    ("GET", "/v1/audio/voices"): Route(
        tag="Speech",
        query=(Parameter("model", str, "An entry or alias; absent: the only one that speaks."),),
        reply=json_reply(replies.VoicesReply, "Presets, voices of the model, and recordings of `voice_dir`."),
    ),
    ("POST", "/v1/audio/speech"): Route(
        tag="Speech", body=(Content(JSON, SpeechBody),), reply=_SPEECH, errors=(*_BODY, *_RUN, *_AUDIO)
    ),
    ("POST", "/v1/audio/transcriptions"): Route(
        tag="Transcription",
        body=(Content(FORM, TranscriptionForm), Content(JSON, TranscriptionBody)),
        reply=_TRANSCRIPT,
        errors=(*_BODY, *_RUN, *_AUDIO),
    ),
    ("POST", "/v1/audio/transcriptions/details"): Route(
        tag="Transcription",
        body=(Content(FORM, TranscriptionForm), Content(JSON, TranscriptionBody)),
        reply=json_reply(TranscriptDetails, "All that the model tells."),
        errors=(*_BODY, *_RUN, *_AUDIO),
    ),
    ("POST", "/v1/batches/transcriptions"): Route(
        tag="Transcription",
        body=(Content(FORM, BatchForm),),
        reply=Reply("A result for each recording.", (stream_of(on_the_wire.BatchTranscript, on_the_wire.BatchDone),)),
        errors=(*_BODY, *_RUN, *_AUDIO),
    ),
    ("POST", "/v1/tasks/run"): Route(
        tag="Tasks",
        body=(Content(JSON, (TaskBody, RequestObject)),),
        reply=json_reply(TaskResult, "The result."),
        errors=(*_BODY, *_RUN, *_AUDIO),
    ),
    ("POST", "/v1/tasks/stream"): Route(
        tag="Tasks",
        body=(Content(JSON, (TaskStreamBody, RequestObject)),),
        reply=Reply(
            "Events and the result.",
            (Content(JSON, TaskStreamReply), stream_of(on_the_wire.TaskEvent, on_the_wire.TaskDone)),
        ),
        errors=(*_BODY, *_RUN, *_AUDIO),
    ),
    ("POST", "/v1/tasks/batch"): Route(
        tag="Tasks",
        body=(Content(JSON, TaskBatchBody),),
        reply=Reply("A result for each request.", (stream_of(on_the_wire.TaskBatchResult, on_the_wire.TaskBatchDone),)),
        errors=(*_BODY, *_RUN, *_AUDIO),
    ),
    **LIVE_ROUTES,
}
"""By method and path; `WEBSOCKET` for those. Every route of the app has a row, which a test checks."""
