"""GET /v1/audio/voices: the names that a speech request may use. Never loads a model."""

from collections.abc import Iterator, Sequence

import trio
from quart import Blueprint, Response, request

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.reply import json_reply
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.voices import Recording, VoiceChoice, choose_voice, is_voice_name, read_library, voice_names
from audiocpp.engines.voice_mix import parse_voice_mix

voices = Blueprint("voices", __name__)

CLONE = "clone"
"""The capability of a family that speaks like a recording."""

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


async def voice_for(entry: ModelEntry, name: str | None) -> VoiceChoice:
    """What a speech request's `voice` means. Raises `InvalidRequest` for a name that nothing here has.

    Names are compared with lists, so one that looks like a path is answered as any other unknown one.
    """
    library = await _library() if CLONE in entry.spec.capabilities else {}
    choice = choose_voice(
        name,
        sends_reference=False,
        presets=entry.voice_presets,
        default=entry.default_voice_preset,
        library=library,
    )
    own = entry.package.voices
    if choice.voice_id and own and not _parts(entry, choice.voice_id) <= set(own):
        raise _unknown(entry, choice.voice_id, voice_names(model_voices(entry), library))
    if choice.voice_id and not is_voice_name(choice.voice_id):
        raise InvalidRequest(f"voice {choice.voice_id!r} is not a voice name", param="voice")
    return choice


def _parts(entry: ModelEntry, voice: str) -> set[str]:
    """The voices that `voice` mixes, where the model can; itself, where it cannot."""
    if MIX not in entry.spec.capabilities.get("tts", ()):
        return {voice}
    try:
        return set(parse_voice_mix(voice))
    except ValueError as error:
        raise InvalidRequest(f"voice: {error}", param="voice") from error


def _unknown(entry: ModelEntry, voice: str, accepted: Sequence[str]) -> InvalidRequest:
    some = ", ".join(accepted[:_MOST_NAMED])
    more = f" and {len(accepted) - _MOST_NAMED} more" if len(accepted) > _MOST_NAMED else ""
    return InvalidRequest(f"voice {voice!r} is unknown to {entry.id!r}; accepted are {some}{more}", param="voice")


async def _library() -> dict[str, Recording]:
    folder = backend().services.config.voice_dir
    return {} if folder is None else await trio.to_thread.run_sync(read_library, folder)


def _entry(name: str | None) -> ModelEntry | None:
    registry = backend().services.registry
    if name:
        return next((entry for entry in registry.entries.values() if name in (entry.id, *entry.aliases)), None)
    speaking = [entry for entry in registry.entries.values() if entry.task == "tts"]
    return speaking[0] if len(speaking) == 1 else None
