"""The rules of the configuration that concern several keys, or more than a key's type and bounds."""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from audiocpp.daemon.config.model import ModelConfig, Options, ServerConfig, VoicePreset
from audiocpp.daemon.errors import ConfigError


def validate(config: ServerConfig, *, allow_no_models: bool) -> None:
    """Raises `ConfigError` for the first rule that does not hold."""
    if not config.models and not allow_no_models:
        raise ConfigError("models: at least one entry is needed, unless ui_management is true")
    _check_host(config.host)
    _check_origins(config.cors_origins)
    if config.frontend_options and not config.frontend_listener:
        raise ConfigError("frontend_options: need a frontend_listener")
    _check_family_options(config.default_session_options)
    if config.voice_dir is not None and not config.voice_dir.is_dir():
        raise ConfigError(f"voice_dir: expected an existing folder, got {str(config.voice_dir)!r}")
    _check_names(config.models)
    for index, model in enumerate(config.models):
        _check_model(model, at=f"models[{index}]")


def _check_host(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise ConfigError(f"host: expected a literal IP address such as 127.0.0.1, got {host!r}") from error


def _check_origins(origins: str | tuple[str, ...]) -> None:
    if isinstance(origins, str):
        if origins not in ("", "*"):
            raise ConfigError(f'cors_origins: expected "", "*" or an array of origins, got {origins!r}')
        return
    for index, origin in enumerate(origins):
        parts = urlsplit(origin)
        if not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}" or "@" in parts.netloc:
            raise ConfigError(f"cors_origins[{index}]: expected an origin such as https://host:port, got {origin!r}")


def _check_family_options(options: Options) -> None:
    for key in options:
        family, _, option = key.partition(".")
        if not (family and option):
            raise ConfigError(f"default_session_options.{key}: expected a key FAMILY.OPTION")


def _check_names(models: tuple[ModelConfig, ...]) -> None:
    """Ids and aliases of all entries are one set of names."""
    taken: dict[str, str] = {}
    for at, name in _names(models):
        if name != name.strip() or not name.isprintable():
            raise ConfigError(f"{at}: expected printable characters without space at the ends, got {name!r}")
        if name in taken:
            raise ConfigError(f"{at}: duplicate name {name!r}, already used by {taken[name]}")
        taken[name] = at


def _names(models: tuple[ModelConfig, ...]) -> Iterator[tuple[str, str]]:
    for index, model in enumerate(models):
        yield f"models[{index}].id", model.id
    for index, model in enumerate(models):
        for position, alias in enumerate(model.aliases):
            yield f"models[{index}].aliases[{position}]", alias


def _check_model(model: ModelConfig, *, at: str) -> None:
    for name, preset in model.voice_presets.items():
        if not name:
            raise ConfigError(f"{at}.voice_presets: a preset needs a name")
        _check_preset(preset, at=f"{at}.voice_presets.{name}")
    default = model.default_voice_preset
    if isinstance(default, VoicePreset):
        _check_preset(default, at=f"{at}.default_voice_preset")
    elif default is not None and default not in model.voice_presets:
        known = ", ".join(sorted(model.voice_presets)) or "none"
        raise ConfigError(f"{at}.default_voice_preset: {default!r} does not match a preset; configured: {known}")


def _check_preset(preset: VoicePreset, *, at: str) -> None:
    if preset == VoicePreset():
        raise ConfigError(f"{at}: expected at least one of voice_id, voice_ref, reference_text, options")
    if preset.voice_ref is not None and not preset.voice_ref.is_file():
        raise ConfigError(f"{at}.voice_ref: no such file: {preset.voice_ref}")
