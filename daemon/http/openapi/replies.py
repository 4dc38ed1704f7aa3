"""Replies in JSON whose routes build them row by row. What clients get is checked against these in tests."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from audiocpp.daemon.lifecycle import State
from audiocpp.daemon.residents import PlacedModel
from audiocpp.engines.devices import Device

Strings = dict[str, str]


class Error(msgspec.Struct, kw_only=True):
    """What went wrong."""

    message: Annotated[str, Meta(description="For people: names the field, its value and what is accepted.")]
    type: str
    code: Annotated[str, Meta(description="For programs; the table of errors lists them.")]
    param: Annotated[str | None, Meta(description="The path of the field at fault.")]


class ErrorReply(msgspec.Struct, kw_only=True):
    """The body of every reply with a status of 400 or more."""

    error: Error


class HealthReply(msgspec.Struct, kw_only=True):
    """That the daemon serves, and what it is."""

    status: Literal["ok"]
    version: str
    commit: str
    backend: Annotated[str, Meta(description="The backend that models run on here.")]
    models: Annotated[int, Meta(description="Entries, in memory or not.")]
    ui: bool
    ui_management: bool
    uptime_s: float
    placements: Annotated[list[PlacedModel], Meta(description="The entries in memory.")]


class DeviceRow(Device, frozen=True, kw_only=True):
    """A device and its name in `--list-devices`."""

    id: str
    object: Literal["device"]


class DevicesReply(msgspec.Struct, kw_only=True):
    """Devices that models can run on."""

    object: Literal["list"]
    data: list[DeviceRow]


class ModelRow(msgspec.Struct, kw_only=True):
    """A configured entry."""

    id: str
    object: Literal["model"]
    owned_by: Literal["engine"]
    family: str
    task: str
    mode: Literal["offline", "streaming"]
    slots: int
    active_slots: int
    reserved_slots: Annotated[int, Meta(description="Kept for live clients that lost their connection.")]
    queued_requests: int
    max_parallel_slots: int | None
    loaded: bool
    path: str
    device: int
    state: State
    package: str
    aliases: list[str]
    placement: Annotated[str | None, Meta(description="What the runtime reported: `runtime:Provider+Provider`.")]
    reason: Annotated[str | UnsetType, Meta(description="Why it is not installed or has failed.")] = UNSET
    session_options: Annotated[Strings | UnsetType, Meta(description="With `include_session_options`.")] = UNSET
    params: Annotated[list[dict[str, Any]] | UnsetType, Meta(description="Request options; with `include_params`.")] = (
        UNSET
    )
    spec: Annotated[dict[str, Any] | UnsetType, Meta(description="With `include_params`.")] = UNSET


class ModelsReply(msgspec.Struct, kw_only=True):
    """The entries, in the order of the configuration."""

    object: Literal["list"]
    data: list[ModelRow]


class VoicesReply(msgspec.Struct, kw_only=True):
    """Names that `voice` may take."""

    voices: list[str]


class UnloadReply(msgspec.Struct, kw_only=True):
    """What was asked for, by whether it exists."""

    unloaded: list[str]
    not_found: list[str]


class UnloadAllReply(msgspec.Struct, kw_only=True):
    """What was in memory."""

    unloaded: list[str]


class Timing(msgspec.Struct, kw_only=True):
    """Of a run, without waiting and loading."""

    wall_ms: float
    audio_duration_ms: float
    rtf: Annotated[float, Meta(description="The first divided by the second; 0 without audio.")]


class SpeechReply(msgspec.Struct, kw_only=True):
    """Speech in JSON: `response_format` `json` or `b64_json`."""

    audio: Annotated[str, Meta(description="A WAV file in base64.")]
    format: Literal["wav"]
    timing: Timing


class TranscriptionReply(msgspec.Struct, kw_only=True):
    """`response_format` `json`."""

    text: str
    timing: Timing


class VerboseSegment(msgspec.Struct, kw_only=True):
    """A segment as OpenAI's clients expect it; what only Whisper knows is null."""

    id: int
    start: Annotated[float, Meta(description="Seconds.")]
    end: float
    text: str
    confidence: float | None
    seek: None
    tokens: None
    temperature: None
    avg_logprob: None
    compression_ratio: None
    no_speech_prob: None


class VerboseWord(msgspec.Struct, kw_only=True):
    word: str
    start: Annotated[float, Meta(description="Seconds.")]
    end: float


class VerboseReply(msgspec.Struct, kw_only=True):
    """`response_format` `verbose_json`."""

    task: Literal["transcribe"]
    language: str | None
    duration: Annotated[float, Meta(description="Seconds.")]
    text: str
    timing: Timing
    segments: list[VerboseSegment] | UnsetType = UNSET
    words: list[VerboseWord] | UnsetType = UNSET
