"""The messages of a Realtime session on the wire. Members that say only what was not asked for are left out."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Base64 = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]
Milliseconds = Annotated[int, Meta(ge=0)]


class SessionUpdate(msgspec.Struct, tag="session.update", kw_only=True):
    """Sets `audio.input`: `format`, `transcription` (`model`, `language`, `prompt`) and `turn_detection` (`server_vad`
    or null). The flat names of the beta are understood too.
    """

    session: dict[str, Any]
    event_id: str | UnsetType = UNSET


class TranscriptionSessionUpdate(msgspec.Struct, tag="transcription_session.update", kw_only=True):
    """The same in the beta: `input_audio_format`, `input_audio_transcription`, `turn_detection`."""

    session: dict[str, Any]
    event_id: str | UnsetType = UNSET


class Append(msgspec.Struct, tag="input_audio_buffer.append", kw_only=True):
    """Audio of any length; a sample may be split between two of them."""

    audio: Base64
    event_id: str | UnsetType = UNSET


class Commit(msgspec.Struct, tag="input_audio_buffer.commit", kw_only=True):
    """What was appended is an item; with `server_vad` the end of speech does it."""

    event_id: str | UnsetType = UNSET


class Clear(msgspec.Struct, tag="input_audio_buffer.clear", kw_only=True):
    """What was not committed is not heard."""

    event_id: str | UnsetType = UNSET


class RealtimeSessionCreated(msgspec.Struct, tag="session.created", kw_only=True):
    """The first event."""

    event_id: str
    session: dict[str, Any]


class TranscriptionSessionCreated(msgspec.Struct, tag="transcription_session.created", kw_only=True):
    """The first event for clients that send `OpenAI-Beta: realtime=v1`."""

    event_id: str
    session: dict[str, Any]


class SessionUpdated(msgspec.Struct, tag="session.updated", kw_only=True):
    """What the session is set to now."""

    event_id: str
    session: dict[str, Any]


class TranscriptionSessionUpdated(msgspec.Struct, tag="transcription_session.updated", kw_only=True):
    """The same in the beta."""

    event_id: str
    session: dict[str, Any]


class BufferSpeechStarted(msgspec.Struct, tag="input_audio_buffer.speech_started", kw_only=True):
    event_id: str
    audio_start_ms: Annotated[Milliseconds, Meta(description="From the first sample of the session.")]
    item_id: str


class BufferSpeechStopped(msgspec.Struct, tag="input_audio_buffer.speech_stopped", kw_only=True):
    event_id: str
    audio_end_ms: Milliseconds
    item_id: str


class BufferCommitted(msgspec.Struct, tag="input_audio_buffer.committed", kw_only=True):
    event_id: str
    item_id: str
    previous_item_id: str | None


class BufferCleared(msgspec.Struct, tag="input_audio_buffer.cleared", kw_only=True):
    event_id: str


class ItemAdded(msgspec.Struct, tag="conversation.item.added", kw_only=True):
    """A committed item. In the beta it is `conversation.item.created`."""

    event_id: str
    previous_item_id: str | None
    item: dict[str, Any]


class ItemDone(msgspec.Struct, tag="conversation.item.done", kw_only=True):
    event_id: str
    previous_item_id: str | None
    item: dict[str, Any]


class ItemDelta(msgspec.Struct, tag="conversation.item.input_audio_transcription.delta", kw_only=True):
    """Text that does not change any more. The deltas of an item joined are its transcript."""

    event_id: str
    item_id: str
    content_index: Literal[0]
    delta: str


class Duration(msgspec.Struct, tag="duration", kw_only=True):
    seconds: float


class ItemCompleted(msgspec.Struct, tag="conversation.item.input_audio_transcription.completed", kw_only=True):
    event_id: str
    item_id: str
    content_index: Literal[0]
    transcript: str
    usage: Duration


class ItemError(msgspec.Struct, kw_only=True):
    message: str
    type: str
    code: str
    param: str | None


class ItemFailed(msgspec.Struct, tag="conversation.item.input_audio_transcription.failed", kw_only=True):
    """The model failed; the session ends."""

    event_id: str
    item_id: str
    content_index: Literal[0]
    error: ItemError


class RealtimeError(ItemError, kw_only=True):
    event_id: Annotated[str | None, Meta(description="Of the client's event at fault, where it has one.")]


class RealtimeErrorEvent(msgspec.Struct, tag="error", kw_only=True):
    """What was refused, by name, or why the session ends."""

    event_id: str
    error: RealtimeError


CLIENT_EVENTS = (SessionUpdate, TranscriptionSessionUpdate, Append, Commit, Clear)
SERVER_EVENTS = (
    RealtimeSessionCreated,
    TranscriptionSessionCreated,
    SessionUpdated,
    TranscriptionSessionUpdated,
    BufferSpeechStarted,
    ItemDelta,
    BufferSpeechStopped,
    BufferCommitted,
    ItemAdded,
    ItemDone,
    ItemCompleted,
    ItemFailed,
    BufferCleared,
    RealtimeErrorEvent,
)
