"""The request object of the task routes: its members, and what they ask of a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.audio_source import base64_audio, local_audio
from audiocpp.daemon.http.collect import decoded_format
from audiocpp.daemon.http.json_body import convert, inside
from audiocpp.daemon.http.task_artifacts import check_artifacts
from audiocpp.daemon.http.voices import check_voice, no_reference
from audiocpp.daemon.references import read_reference
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.request_fields import language_tag
from audiocpp.daemon.request_options import request_options, speed_option
from audiocpp.engines.tasks import Mode, OptionValue, Reference, TaskRequest

LISTENING = frozenset({"asr", "vad", "align"})
"""Tasks of a recording."""

NEEDS_TEXT = frozenset({"align"})
"""Those of them that work on a text too."""

SPEAKING = frozenset({"tts", "clone", "design"})
"""Tasks whose result is speech."""

Scalar = int | float | str | bool | None
Option = Annotated[Scalar, Meta(description="Sets the option of the same name; it wins over `options`.")]
TextOption = Annotated[str | None, Meta(description="Sets the option of the same name.")]
NumberOption = Annotated[float | None, Meta(description="Sets the option of the same name.")]
PathOption = Annotated[
    str | None, Meta(description="Path of a recording on the server's machine; sets the option of the same name.")
]


class RequestObject(msgspec.Struct, kw_only=True):
    """What a task works on, and how. Null counts as absent; unknown members are ignored."""

    text: Annotated[str | None, Meta(description="The text to speak or to align, or context for the recognition.")] = (
        None
    )
    language: Annotated[
        str | None,
        Meta(description="BCP-47, reduced to what the model takes; also the option `language` where declared."),
    ] = None
    audio: Annotated[str | None, Meta(description="Path of the recording to work on, on the server's machine.")] = None
    audio_base64: Annotated[
        str | None, Meta(description="The recording itself, or a `data:` URI of it; instead of `audio`.")
    ] = None

    voice_id: Annotated[str | None, Meta(description="A voice of the model; presets do not apply here.")] = None
    voice_ref: Annotated[
        str | None, Meta(description="Path of a recording to speak like, on the server's machine; for models that can.")
    ] = None
    reference_text: Annotated[str | None, Meta(description="What is said in `voice_ref`.")] = None

    style_language: TextOption = None
    emotion: TextOption = None
    speaking_rate: Annotated[
        float | None, Meta(description="Rate of speech; 1.0 is accepted by every model, others where declared.")
    ] = None
    pitch_shift: NumberOption = None
    energy_scale: NumberOption = None
    style_tags: Annotated[
        dict[str, Any] | None, Meta(description="Sets the option of the same name, as compact JSON.")
    ] = None

    task_route: Annotated[str | None, Meta(description="Sets the option `route`.")] = None
    route: Annotated[str | None, Meta(description="The same, used when `task_route` is absent.")] = None

    source_audio: PathOption = None
    target_voice: PathOption = None
    prosody_ref: PathOption = None
    style_ref: PathOption = None

    target_text: TextOption = None
    style_ref_text: TextOption = None
    lyrics: TextOption = None
    track_name: TextOption = None
    speaker: TextOption = None
    instruct: TextOption = None
    repaint_mode: TextOption = None

    duration_seconds: NumberOption = None
    repaint_start: Annotated[float | None, Meta(description="Sets the option `repainting_start`.")] = None
    repaint_end: Annotated[float | None, Meta(description="Sets the option `repainting_end`.")] = None
    repaint_strength: NumberOption = None

    seed: Option = None
    max_tokens: Option = None
    max_steps: Option = None
    temperature: Option = None
    top_k: Option = None
    top_p: Option = None
    repetition_penalty: Option = None
    do_sample: Option = None
    num_beams: Option = None
    guidance_scale: Option = None
    num_inference_steps: Option = None
    text_chunk_size: Option = None
    text_chunk_mode: Option = None
    audio_chunk_seconds: Option = None
    audio_chunk_mode: Option = None
    return_timestamps: Option = None
    use_prosody_code: Option = None
    predict_target_prosody: Option = None
    use_pitch_shift: Option = None
    source_shift_steps: Option = None
    prosody_shift_steps: Option = None
    style_shift_steps: Option = None
    target_duration_seconds: Option = None
    reference_duration_seconds: Option = None

    options: Annotated[dict[str, Any] | None, Meta(description="Request options of the model.")] = None
    artifacts: Annotated[
        list[Any] | None,
        Meta(description="Results of earlier tasks: objects with `id`, `kind`, `payload` or `path`, `meta`."),
    ] = None


RENAMED_OPTIONS = {
    "task_route": "route",
    "repaint_start": "repainting_start",
    "repaint_end": "repainting_end",
}
"""Member -> the option that it sets."""

PATH_OPTIONS = ("source_audio", "target_voice", "prosody_ref", "style_ref")

_NO_OPTIONS = frozenset(
    ["text", "language", "audio", "audio_base64", "voice_id", "voice_ref", "speaking_rate", "options", "artifacts"]
)
"""The members that set no option of their name."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A validated request object.

    Attributes:
        source: the recording to work on; None for a task that speaks.
        source_param: the field that it came in, for errors.
        at: path of the request object in the body.
    """

    entry: ModelEntry
    request: TaskRequest
    source: bytes | Path | None = None
    source_param: str = ""
    at: str = ""


async def task_of(entry: ModelEntry, members: Mapping[str, Any], *, mode: Mode = "offline", at: str = "") -> Task:
    """What a request object asks of an entry. Everything that can be told without the model is refused here.

    Errors name fields below `at`.
    """
    if entry.task not in LISTENING | SPEAKING:
        raise InvalidRequest(f"model {entry.id!r} does {entry.task}, which the task routes do not run", param="model")
    asked = convert(dict(members), RequestObject, at=f".{at}" if at else "")
    if asked.artifacts:
        await _refuse_artifacts(asked.artifacts, entry, at=at)
    with inside(at):
        task = await (_listening if entry.task in LISTENING else _speaking)(entry, asked, mode)
    return msgspec.structs.replace(task, source_param=f"{at}.{task.source_param}".lstrip("."), at=at)


async def _listening(entry: ModelEntry, asked: RequestObject, mode: Mode) -> Task:
    for name in ("voice_id", "voice_ref", "reference_text"):
        if getattr(asked, name):
            raise InvalidRequest(f"{name}: model {entry.id!r} does not speak", param=name)
    text = asked.text or ""
    if entry.task in NEEDS_TEXT and not text.strip():
        raise InvalidRequest("text is required: what is said in the recording", param="text")
    source, param = await _recording(asked)
    return Task(
        entry=entry,
        request=TaskRequest(
            task=entry.task,
            mode=mode,
            text="" if entry.task == "asr" else text,
            prompt=text if entry.task == "asr" else "",
            language=language_tag(entry, asked.language),
            audio=decoded_format(entry),
            options=await _options(entry, asked),
        ),
        source=source,
        source_param=param,
    )


async def _speaking(entry: ModelEntry, asked: RequestObject, mode: Mode) -> Task:
    for name in ("audio", "audio_base64"):
        if getattr(asked, name):
            raise InvalidRequest(f"{name}: model {entry.id!r} does {entry.task}, it takes no recording", param=name)
    if not (asked.text or "").strip():
        raise InvalidRequest("text is required: there is nothing to speak", param="text")
    if asked.voice_id:
        check_voice(entry, asked.voice_id, param="voice_id")
    return Task(
        entry=entry,
        request=TaskRequest(
            task=entry.task,
            mode=mode,
            text=asked.text or "",
            language=language_tag(entry, asked.language),
            voice=asked.voice_id or "",
            options=await _options(entry, asked),
            reference=await _reference(entry, asked),
        ),
    )


async def _recording(asked: RequestObject) -> tuple[bytes | Path, str]:
    """The recording to work on, and the member that it came in."""
    if asked.audio and asked.audio_base64 is not None:
        raise InvalidRequest("audio and audio_base64 are both set; send one of them", param="audio_base64")
    if asked.audio_base64 is not None:
        return base64_audio(asked.audio_base64, "audio_base64"), "audio_base64"
    if not asked.audio:
        raise InvalidRequest("audio or audio_base64 is required: the recording to work on", param="audio")
    return await local_audio(asked.audio, "audio"), "audio"


async def _reference(entry: ModelEntry, asked: RequestObject) -> Reference | None:
    for name in ("voice_ref", "reference_text"):
        if getattr(asked, name) and not entry.spec.takes_reference:
            raise no_reference(entry, f"{name} is not used", param=name)
    if not asked.voice_ref:
        return None
    path = await local_audio(asked.voice_ref, "voice_ref")
    return await read_reference(backend().services.codecs, entry, path, param="voice_ref")


async def _options(entry: ModelEntry, asked: RequestObject) -> dict[str, OptionValue]:
    """The members that set an option, over `options`; an option that the model does not declare is refused."""
    members: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(asked).items() if name not in _NO_OPTIONS
    }
    if asked.task_route is not None:
        members["route"] = None
    named = {RENAMED_OPTIONS.get(name, name): value for name, value in members.items() if value not in (None, "")}
    if asked.language and entry.spec.declares("language") and "language" not in (asked.options or {}):
        named["language"] = asked.language
    for name in PATH_OPTIONS:
        if name in named and entry.spec.declares(name):
            named[name] = str(await local_audio(named[name], name))
    try:
        return request_options(entry, asked.options, **named | speed_option(entry, asked.speaking_rate))
    except InvalidRequest as error:
        error.param = _member(error.param, asked)
        raise


def _member(option: str | None, asked: RequestObject) -> str | None:
    """The member that set an option which was refused."""
    if option in ("speed", "speaking_rate"):
        return "speaking_rate"
    sent_as = {option: member for member, option in RENAMED_OPTIONS.items() if getattr(asked, member) is not None}
    return sent_as.get(option or "", option)


async def _refuse_artifacts(artifacts: list[Any], entry: ModelEntry, *, at: str) -> None:
    """No family takes any. What is wrong with them, or that the model is not here, is said first."""
    with inside(at):
        await check_artifacts(artifacts)
    backend().services.residency.require_package(entry)
    with inside(at):
        raise InvalidRequest(f"artifacts: model {entry.id!r} takes none", param="artifacts")
