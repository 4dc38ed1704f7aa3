"""One file per model family, and the table that names them. A family is imported only in the worker that loads it."""

from importlib import import_module
from typing import cast

from audiocpp.engines.errors import LoadError
from audiocpp.engines.family import Family

FAMILIES: dict[str, tuple[str, str]] = {
    "moonshine_asr": ("audiocpp.engines.families.moonshine_asr", "MoonshineAsr"),
    "silero_vad": ("audiocpp.engines.families.silero_vad", "SileroVad"),
    "piper_tts": ("audiocpp.engines.families.piper_tts", "PiperTts"),
    "kokoro_tts": ("audiocpp.engines.families.kokoro_tts", "KokoroTts"),
    "hama_forced_aligner": ("audiocpp.engines.families.hama_forced_aligner", "HamaForcedAligner"),
    "codec": ("audiocpp.engines.codec", "Codec"),
}
"""Family name -> module and class."""


def find_family(name: str) -> type[Family]:
    """Imports and returns the class of a family. Raises `LoadError` for an unknown name."""
    if name not in FAMILIES:
        raise LoadError(f"family {name!r} is not known here; known: {', '.join(sorted(FAMILIES))}", param="family")
    module, attribute = FAMILIES[name]
    return cast("type[Family]", getattr(import_module(module), attribute))
