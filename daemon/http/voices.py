"""GET /v1/audio/voices: the names that a speech request may use. Never loads a model."""

from collections.abc import Iterator, Sequence

import msgspec
import trio
from quart import Blueprint, Response, request

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.reply import json_reply
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.voices import Recording, VoiceChoice, choose_voice, is_voice_name, read_library, voice_names
from audiocpp.engines.voice_mix import parse_voice_mix

voices = Blueprint("voices", __name__)

RECORDING = "voice_ref"
"""The name of what speaks when that is a recording of the request."""

UNNAMED = "default"
"""The same for a model whose voices have no names."""

MIX = "voice-mixing"
"""The tag of a family that takes several of its voices for one."""

_MOST_NAMED = 12
"""Voices that an error lists."""


@voices.get("/v1/audio/voices")
async def list_voices() -> Response:
    """Lists the voices of a model: presets, its own, and the library's.

    An unknown model is no error here: it has the names of the library only.
    """
    entry = _entry(request.args.get("model"))
    names = () if entry is None else model_voices(entry)
    return json_reply({"voices": voice_names(names, await _library())})


def model_voices(entry: ModelEntry) -> Iterator[str]:
    """The configured presets and the voices of the package."""
    yield from entry.voice_presets
    yield from entry.package.voices


async def voice_for(entry: ModelEntry, name: str | None, *, sends_reference: bool = False) -> VoiceChoice:
    """What a speech request's `voice` means; its `name` is never empty. Raises `InvalidRequest` for an unknown name.

    Names are compared with lists, so one that looks like a path is answered as any other unknown one.
    """
    library = await _library()
    choice = choose_voice(
        name,
        sends_reference=sends_reference,
        presets=entry.voice_presets,
        default=entry.default_voice_preset,
        library=library if entry.spec.takes_reference else {},
        own=entry.package.voices,
    )
    if choice.voice_id in library and choice.voice_id not in entry.package.voices and not entry.spec.takes_reference:
        raise no_reference(entry, f"voice: {choice.voice_id!r} is a recording", param="voice")
    if choice.voice_id:
        check_voice(entry, choice.voice_id, param="voice", accepted=voice_names(model_voices(entry), library))
    return msgspec.structs.replace(choice, name=choice.name or _unnamed(entry, sends_reference=sends_reference))


def check_voice(entry: ModelEntry, voice: str, *, param: str, accepted: Sequence[str] = ()) -> None:
    """Raises `InvalidRequest` for a name that no voice of the model has; it lists `accepted`, else those voices."""
    own = entry.package.voices
    if own and not _parts(entry, voice, param=param) <= set(own):
        raise _unknown(entry, voice, accepted or own, param=param)
    if not is_voice_name(voice):
        raise InvalidRequest(f"{param}: {voice!r} is not a voice name", param=param)


def no_reference(entry: ModelEntry, what: str, *, param: str) -> InvalidRequest:
    """The refusal of a model that only has voices of its own."""
    return InvalidRequest(f"{what}; model {entry.id!r} does not speak like a recording", param=param)


def _unnamed(entry: ModelEntry, *, sends_reference: bool) -> str:
    return RECORDING if sends_reference else next(iter(entry.package.voices), UNNAMED)


def _parts(entry: ModelEntry, voice: str, *, param: str) -> set[str]:
    """The voices that `voice` mixes, where the model can; itself, where it cannot."""
    if MIX not in entry.spec.capabilities.get("tts", ()):
        return {voice}
    try:
        return set(parse_voice_mix(voice))
    except ValueError as error:
        raise InvalidRequest(f"{param}: {error}", param=param) from error


def _unknown(entry: ModelEntry, voice: str, accepted: Sequence[str], *, param: str) -> InvalidRequest:
    some = ", ".join(accepted[:_MOST_NAMED])
    more = f" and {len(accepted) - _MOST_NAMED} more" if len(accepted) > _MOST_NAMED else ""
    return InvalidRequest(f"voice {voice!r} is unknown to {entry.id!r}; accepted are {some}{more}", param=param)


async def _library() -> dict[str, Recording]:
    folder = backend().services.config.voice_dir
    return {} if folder is None else await trio.to_thread.run_sync(read_library, folder)


def _entry(name: str | None) -> ModelEntry | None:
    registry = backend().services.registry
    if name:
        return next((entry for entry in registry.entries.values() if name in (entry.id, *entry.aliases)), None)
    speaking = [entry for entry in registry.entries.values() if entry.task == "tts"]
    return speaking[0] if len(speaking) == 1 else None
