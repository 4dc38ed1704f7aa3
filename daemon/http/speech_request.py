"""The body of a speech request and what it asks for."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.voice_reference import VoiceRef, sent_recording
from audiocpp.daemon.http.voices import no_reference, voice_for
from audiocpp.daemon.references import read_reference
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.request_fields import Flag, Milliseconds, flag, language_tag
from audiocpp.daemon.request_options import COPIED_SCALARS, request_options, speed_option
from audiocpp.daemon.voices import VoiceChoice
from audiocpp.engines import ffmpeg
from audiocpp.engines.tasks import OptionValue, Reference, TaskRequest

CONTENT_TYPES = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
    "aac": "audio/aac",
}
"""Of the files that can be made, `aac` with the `ffmpeg` extra. All of them can also be streamed."""

JSON_FORMATS = ("json", "b64_json")
STREAM_FORMATS = {"sse": ("pcm",), "audio": ("pcm", *(name for name in CONTENT_TYPES if name != "pcm"))}
"""What each kind of stream can carry, the default first."""

Scalar = int | float | str | bool | None
Copied = Annotated[Scalar, Meta(description="Sets the option of the same name; it wins over `options`.")]


class SpeechBody(msgspec.Struct, kw_only=True):
    """The JSON body. Unknown members are ignored; null counts as absent."""

    model: Annotated[str | None, Meta(description="An entry or alias for `tts`; absent: the only one.")] = None
    input: Annotated[str, Meta(description="The text to speak.")]
    language: Annotated[str | None, Meta(description="BCP-47; reduced to what the model speaks.")] = None
    voice: Annotated[
        str | None,
        Meta(description="A preset, a recording of `voice_dir` or a voice of the model; empty: the default."),
    ] = None
    voice_ref: Annotated[
        str | VoiceRef | None,
        Meta(
            description="A recording to speak like: the path of one, or the long form. Refused by models that cannot."
        ),
    ] = None
    reference_text: Annotated[str | None, Meta(description="What is said in `voice_ref`.")] = None
    instructions: Annotated[str | None, Meta(description="Sets the option `instruction`.")] = None
    instruct: Annotated[str | None, Meta(description="Sets the option `instruct`; not beside `instructions`.")] = None
    seed: Copied = None
    temperature: Copied = None
    top_k: Copied = None
    top_p: Copied = None
    max_tokens: Copied = None
    max_steps: Copied = None
    repetition_penalty: Copied = None
    guidance_scale: Copied = None
    num_inference_steps: Copied = None
    speed: Annotated[
        float | None, Meta(description="Rate of speech; 1.0 is accepted by every model, others where declared.")
    ] = None
    speaking_rate: Annotated[float | None, Meta(description="The same, used when `speed` is absent.")] = None
    options: Annotated[dict[str, object] | None, Meta(description="Request options of the model.")] = None
    response_format: Annotated[
        str | None,
        Meta(description="`wav`, another of the formats below, `json` or `b64_json`."),
    ] = None
    stream: Annotated[Flag, Meta(description="Stream the reply; with `stream_format` absent, as events.")] = None
    stream_format: Annotated[
        str | UnsetType | None, Meta(description="`sse` or `audio`. Its presence alone asks for a stream.")
    ] = UNSET
    busy_timeout_ms: Annotated[
        Milliseconds | None, Meta(description="Longest wait for a slot; the model's own is the ceiling.")
    ] = None


class Speech(msgspec.Struct, frozen=True, kw_only=True):
    """A validated request. `voice` is what speaks. `stream_format` is empty for a buffered reply."""

    entry: ModelEntry
    request: TaskRequest
    voice: str
    response_format: str
    stream_format: str
    busy_timeout_ms: int | None


async def speech_of(body: SpeechBody) -> Speech:
    """Validates. Everything that can be told without the model is refused here."""
    entry = backend().services.registry.resolve(body.model or None, task="tts", mode="offline")
    if not body.input.strip():
        raise InvalidRequest("input is empty: there is nothing to speak", param="input")
    stream_format = _stream_format(body, entry)
    response_format = _response_format(body.response_format, stream_format)
    language = language_tag(entry, body.language)
    voice = await _voice(body, entry)
    options = _options(body, entry, voice)
    return Speech(
        entry=entry,
        request=TaskRequest(
            task="tts",
            mode="streaming" if stream_format else "offline",
            text=body.input,
            language=language,
            voice=voice.voice_id,
            reference=await _reference(body, entry, voice),
            options=options,
        ),
        voice=voice.name,
        response_format=response_format,
        stream_format=stream_format,
        busy_timeout_ms=body.busy_timeout_ms,
    )


def _stream_format(body: SpeechBody, entry: ModelEntry) -> str:
    """The mere presence of `stream_format` asks for a stream; `stream` alone means `sse`."""
    if body.stream_format is UNSET and not flag(body.stream, "stream"):
        return ""
    if "streaming" not in entry.spec.modes:
        raise InvalidRequest(f"model {entry.id!r} cannot stream; leave stream and stream_format out", param="stream")
    wanted = body.stream_format if isinstance(body.stream_format, str) else "sse"
    if wanted not in STREAM_FORMATS:
        raise InvalidRequest(f"stream_format: {wanted!r} is none of {', '.join(STREAM_FORMATS)}", param="stream_format")
    return wanted


def _response_format(name: str | None, stream_format: str) -> str:
    accepted = STREAM_FORMATS[stream_format] if stream_format else (*CONTENT_TYPES, *JSON_FORMATS)
    name = name or accepted[0]
    without = () if ffmpeg.is_installed() else ("aac",)
    if name not in accepted or name in without:
        at = f" with stream_format {stream_format}" if stream_format else ""
        hint = f"; for this one: {ffmpeg.INSTALL_COMMAND}" if name in without else ""
        made = ", ".join(other for other in accepted if other not in without)
        raise InvalidRequest(
            f"response_format: {name!r} is not made{at}; accepted: {made}{hint}", param="response_format"
        )
    return name


async def _voice(body: SpeechBody, entry: ModelEntry) -> VoiceChoice:
    for field in ("voice_ref", "reference_text"):
        if getattr(body, field) is not None and not entry.spec.takes_reference:
            raise no_reference(entry, f"{field} is not used", param=field)
    return await voice_for(entry, body.voice, sends_reference=body.voice_ref is not None)


def _options(body: SpeechBody, entry: ModelEntry, voice: VoiceChoice) -> dict[str, OptionValue]:
    if body.instruct is not None and body.instructions is not None:
        raise InvalidRequest("instruct and instructions are the same thing; send one of them", param="instructions")
    if body.instructions is not None and not entry.spec.declares("instruction"):
        raise InvalidRequest(f"instructions: model {entry.id!r} takes none", param="instructions")
    speed = body.speed if body.speed is not None else body.speaking_rate
    preset = dict(voice.options)
    if voice.reference_text and entry.spec.declares("reference_text"):
        preset["reference_text"] = voice.reference_text
    return request_options(
        entry,
        body.options,
        preset=preset,
        **{name: getattr(body, name) for name in COPIED_SCALARS},
        reference_text=body.reference_text,
        instruct=body.instruct,
        instruction=body.instructions,
        **speed_option(entry, speed),
    )


async def _reference(body: SpeechBody, entry: ModelEntry, voice: VoiceChoice) -> Reference | None:
    codecs = backend().services.codecs
    if body.voice_ref is not None:
        return await read_reference(codecs, entry, await sent_recording(body.voice_ref), param="voice_ref")
    if voice.voice_ref is not None:
        source = entry.recordings.get(voice.voice_ref, voice.voice_ref)
        return await read_reference(codecs, entry, source, param="voice")
    return None
