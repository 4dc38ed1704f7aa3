"""From a document and flags to a `ServerConfig`. Every message begins with the path of the field at fault."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from audiocpp.daemon.config.document import read_document
from audiocpp.daemon.config.model import WORDS, ModelConfig, ServerConfig, VoicePreset
from audiocpp.daemon.config.notices import join, report_inert_keys, report_unknown_keys
from audiocpp.daemon.config.validate import validate
from audiocpp.daemon.errors import ConfigError
from audiocpp.daemon.option_text import option_text

T = TypeVar("T")
Json = dict[str, Any]

SERVER_OPTION_MAPS = ("default_session_options", "frontend_options")
MODEL_OPTION_MAPS = ("load_options", "session_options", "default_request_options")
_JSON_NAMES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}

FRONTEND_PATHS = ("cert_file", "key_file")
"""Options of a frontend that name a file."""

PATH_FLAGS = ("admin_socket", "models_root", "model_spec_override", "voice_dir")


def load_config(path: Path | None, overrides: Mapping[str, object], *, strict: bool = False) -> ServerConfig:
    """Reads `path` and lays `overrides` over it: keys of the file by name, from flags; None means not given.

    Relative paths count from the folder of the file, those of overrides from the working directory. Without a file
    the server starts without models. An unknown key is logged as a warning, or refused when `strict`.
    Raises `ConfigError`.
    """
    document = {"models": [], "lazy_load": True} if path is None else read_document(path)
    folder = Path.cwd() if path is None else path.absolute().parent
    report_unknown_keys(document, strict=strict)
    _apply(document, overrides)
    config = parse_config(document, folder=folder)
    validate(config, allow_no_models=path is None or config.ui_management)
    report_inert_keys(config)
    return config


def parse_config(document: Json, *, folder: Path) -> ServerConfig:
    """The document as structs, without the rules that concern several keys. Unknown keys are ignored."""
    reader = _Reader(folder)
    document = _with_option_texts(document, SERVER_OPTION_MAPS, at="")
    if isinstance(options := document.get("frontend_options"), dict):
        document["frontend_options"] = _with_paths(options, folder=folder)
    entries = document.get("models", [])
    if not isinstance(entries, list):
        raise ConfigError(f"models: expected an array, got {_shown(entries)}")
    document["models"] = [_named_model(entry, reader, at=f"models[{index}]") for index, entry in enumerate(entries)]
    return reader.convert(document, ServerConfig, at="")


def effective(config: ServerConfig) -> Json:
    """The configuration in force, as JSON values. API keys are not shown."""
    shown = msgspec.to_builtins(config, enc_hook=str)
    if not isinstance(config.api_keys, tuple):
        return cast("Json", shown)
    return {**shown, "api_keys": ["(hidden)"] * len(config.api_keys)}


def _apply(document: Json, overrides: Mapping[str, object]) -> None:
    for key, value in overrides.items():
        if key not in ServerConfig.__struct_fields__:
            raise ValueError(f"no such key: {key}")
        if value is None:
            continue
        if key in PATH_FLAGS:
            value = str(Path(str(value)).absolute())
        if key == "frontend_options" and isinstance(value, Mapping):
            value = {**document.get(key, {}), **_with_paths(value, folder=Path.cwd())}
        document[key] = value


def _with_paths(options: Mapping[str, str], *, folder: Path) -> dict[str, str]:
    """Frontend options in which relative paths are counted from `folder`."""
    return {
        name: str(folder / Path(text).expanduser()) if name in FRONTEND_PATHS and text else text
        for name, text in options.items()
    }


def _named_model(entry: object, reader: "_Reader", *, at: str) -> ModelConfig:
    try:
        return _model(entry, reader, at=at)
    except ConfigError as error:
        if isinstance(entry, dict) and isinstance(name := entry.get("id"), str) and name:
            raise ConfigError(f"{error} (model {name})") from error
        raise


def _model(entry: object, reader: "_Reader", *, at: str) -> ModelConfig:
    if not isinstance(entry, dict):
        raise ConfigError(f"{at}: expected an object, got {_shown(entry)}")
    entry = _with_option_texts(entry, MODEL_OPTION_MAPS, at=at)
    presets = entry.get("voice_presets", {})
    if not isinstance(presets, dict):
        raise ConfigError(f"{at}.voice_presets: expected an object, got {_shown(presets)}")
    entry["voice_presets"] = {
        name: _preset(preset, reader, at=f"{at}.voice_presets.{name}") for name, preset in presets.items()
    }
    if isinstance(entry.get("default_voice_preset"), dict):
        entry["default_voice_preset"] = _preset(entry["default_voice_preset"], reader, at=f"{at}.default_voice_preset")
    return _with_instruct(reader.convert(entry, ModelConfig, at=at), at=at)


def _preset(preset: object, reader: "_Reader", *, at: str) -> VoicePreset:
    if isinstance(preset, dict):
        preset = _with_option_texts(preset, ("options",), at=at)
    return reader.convert(preset, VoicePreset, at=at)


def _with_instruct(model: ModelConfig, *, at: str) -> ModelConfig:
    if model.instruct is None:
        return model
    for other in ("instruct", "instruction"):
        if other in model.default_request_options:
            raise ConfigError(f"{at}.instruct: is also set as default_request_options.{other}; keep one of them")
    options = {**model.default_request_options, "instruct": model.instruct}
    return msgspec.structs.replace(model, default_request_options=options)


def _with_option_texts(values: Json, keys: tuple[str, ...], *, at: str) -> Json:
    """A copy of `values` in which the option maps under `keys` hold texts. Other types are left to the conversion."""
    result = dict(values)
    for key in keys:
        if isinstance(options := values.get(key), dict):
            result[key] = {name: _option(value, at=join(at, f"{key}.{name}")) for name, value in options.items()}
    return result


def _option(value: object, *, at: str) -> str:
    try:
        return option_text(value)
    except ValueError as error:
        raise ConfigError(f"{at}: {error}") from error


class _Reader:
    """Converts JSON values to structs, with relative paths counted from `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def convert(self, value: object, target: type[T], *, at: str) -> T:
        try:
            return msgspec.convert(value, target, dec_hook=self._decode)
        except msgspec.ValidationError as error:
            raise ConfigError(_located(str(error), value, at=at)) from error

    def _decode(self, target: type, value: object) -> object:
        if target is not Path:
            raise NotImplementedError(target)
        if not isinstance(value, str) or not value:
            raise ValueError("Expected `str`, a path")
        return self._folder / Path(value).expanduser()


def _located(message: str, value: object, *, at: str) -> str:
    """msgspec's message, turned round: the field first, then what is accepted, then what was there."""
    what, _, where = message.partition(" - at `$")
    where = where.rstrip("`")
    if missing := re.search(r"missing required field `(\w+)`", what):
        return f"{join(at, f'{where}.{missing[1]}')}: required, but missing"
    if what.startswith("Invalid enum value"):
        what = f"Expected one of {', '.join(map(repr, WORDS[where.rpartition('.')[2]]))}"
    expected = re.sub(r"\b(int|float|str|bool)\b", lambda match: _JSON_NAMES[match[0]], what.partition(", got ")[0])
    return f"{join(at, where)}: {expected.replace('`', '').lower()}, got {_shown(_at(value, where))}"


def _at(value: object, where: str) -> object:
    """The value that a path such as `.live_ingest.idle_timeout_ms` or `.aliases[0]` leads to."""
    steps = re.findall(r"\.(\w+)|\[(\d+)\]", where)
    return functools.reduce(lambda inner, step: inner[step[0] or int(step[1])], steps, cast("Any", value))


def _shown(value: object) -> str:
    text = option_text(value) if value is not None else "null"
    return repr(text[:80]) if isinstance(value, str) else text[:80]
