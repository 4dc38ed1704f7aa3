"""Recordings of voices to speak like, as the model gets them: mono PCM at its rate, of bounded length."""

from pathlib import Path

from audiocpp.daemon.codecs import Codecs
from audiocpp.daemon.errors import BodyTooLarge, ConfigError, DaemonError, InvalidRequest
from audiocpp.daemon.registry import ModelEntry, Registry
from audiocpp.daemon.voices import named_presets
from audiocpp.engines.tasks import Reference

MAX_REFERENCE_S = 60.0
"""Longest recording. Families listen to a few seconds of it, and it is held in memory while a request waits."""


async def read_reference(codecs: Codecs, entry: ModelEntry, source: bytes | Path, *, param: str) -> Reference:
    """Decodes a recording for the entry's model. Errors name `param`.

    Raises `InvalidRequest`, `UnsupportedMedia`, or `BodyTooLarge` when it is longer than `MAX_REFERENCE_S`.
    """
    rate_hz = entry.spec.input_sample_rate_hz
    assert rate_hz is not None
    try:
        async with codecs.decode(source, sample_rate=rate_hz, max_seconds=MAX_REFERENCE_S, param=param) as audio:
            pcm = await audio.whole()
    except BodyTooLarge as error:
        raise BodyTooLarge(f"{param}: a recording of a voice may have {MAX_REFERENCE_S:g} s", param=param) from error
    if not pcm:
        raise InvalidRequest(f"{param}: the recording has no sample", param=param)
    return Reference(pcm=pcm, sample_rate=rate_hz)


async def check_presets(registry: Registry, codecs: Codecs) -> None:
    """Decodes the recordings of all presets once. Raises `ConfigError` for one that cannot be used."""
    for index, entry in enumerate(registry.entries.values()):
        for at, preset in named_presets(entry.voice_presets, entry.default_voice_preset):
            if preset.voice_ref is not None:
                field = f"models[{index}].{at}.voice_ref"
                try:
                    await read_reference(codecs, entry, entry.recordings[preset.voice_ref], param=field)
                except DaemonError as error:
                    raise ConfigError(f"{error.message} ({preset.voice_ref})") from error
