"""What a configuration contains that is not wrong but should be known: keys that nothing reads."""

import difflib
import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from audiocpp.daemon.config.model import INERT, LiveIngest, ModelConfig, ServerConfig, VoicePreset
from audiocpp.daemon.errors import ConfigError

log = logging.getLogger(__name__)


def report_unknown_keys(document: dict[str, Any], *, strict: bool) -> None:
    """Warns of each key that nothing reads, or raises `ConfigError` for the first when `strict`."""
    for where, key, known in _unknown_keys(document):
        nearest = difflib.get_close_matches(key, known, n=1)
        message = f"{join(where, key)}: unknown key" + (f"; did you mean {nearest[0]}?" if nearest else "")
        if strict:
            raise ConfigError(message)
        log.warning(message)


def report_inert_keys(config: ServerConfig) -> None:
    structs: list[tuple[str, msgspec.Struct]] = [("", config)]
    structs += [(f"models[{index}]", model) for index, model in enumerate(config.models)]
    for at, struct in structs:
        for field in msgspec.structs.fields(struct):
            if field.name in INERT[type(struct)] and getattr(struct, field.name) not in (field.default, {}):
                log.warning("%s: has no effect in this version", join(at, field.name))


def _unknown_keys(document: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    yield from _strangers(document, ServerConfig, "")
    yield from _strangers(document.get("live_ingest"), LiveIngest, "live_ingest")
    models = document.get("models")
    for index, entry in enumerate(models if isinstance(models, list) else ()):
        if not isinstance(entry, dict):
            continue
        at = f"models[{index}]"
        yield from _strangers(entry, ModelConfig, at)
        yield from _strangers(entry.get("live_ingest"), LiveIngest, f"{at}.live_ingest")
        yield from _strangers(entry.get("default_voice_preset"), VoicePreset, f"{at}.default_voice_preset")
        presets = entry.get("voice_presets")
        for name, preset in presets.items() if isinstance(presets, dict) else ():
            yield from _strangers(preset, VoicePreset, f"{at}.voice_presets.{name}")


def _strangers(value: object, struct: type[msgspec.Struct], where: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    if isinstance(value, dict):
        known = struct.__struct_fields__
        yield from ((where, key, known) for key in value if key not in known)


def join(at: str, where: str) -> str:
    """The path of the field `where` below `at`; either may be empty."""
    where = where.lstrip(".")
    return f"{at}.{where}" if at and where else at or where
