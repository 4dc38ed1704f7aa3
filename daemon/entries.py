"""From the configuration and the catalog to the registered entries. Knows families by their specs only."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from audiocpp.daemon.config import ModelConfig, ServerConfig, VoicePreset
from audiocpp.daemon.errors import ConfigError
from audiocpp.daemon.registry import ModelEntry, Registry
from audiocpp.daemon.voices import named_presets
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.errors import InvalidInput, SpecError
from audiocpp.engines.options import check_options
from audiocpp.engines.spec import ModelSpec, OptionSpec, PackageSpec
from audiocpp.engines.tasks import Mode, OptionValue, TaskName

T = TypeVar("T")

SPEC_TASKS = {"clon": "clone", "vdes": "design", "gen": "music"}
"""Task words of the configuration that specs spell differently."""

MAX_RECORDING_BYTES = 16 << 20
"""Largest recording of a preset: a minute of it in any form of WAV, which is held in memory."""

FOREIGN_SUFFIXES = (".gguf", ".ggml", ".safetensors", ".pt", ".pth", ".bin")
"""Weights of other runtimes, which a configuration from elsewhere may name."""


def build_registry(config: ServerConfig, catalog: Catalog) -> Registry:
    """The entries of `config`. Raises `ConfigError` that begins with the path of the field at fault.

    What is not installed is not looked for: a missing package is a state of the entry, not an error.
    """
    return Registry(
        _EntryBuilder(config, model, catalog, at=f"models[{index}]").entry()
        for index, model in enumerate(config.models)
    )


class _EntryBuilder:
    """One entry. Each method answers one question and refuses what the spec does not allow."""

    def __init__(self, config: ServerConfig, model: ModelConfig, catalog: Catalog, *, at: str) -> None:
        self._config = config
        self._model = model
        self._at = at
        self._spec = self._find_spec(catalog)

    def entry(self) -> ModelEntry:
        config, model, spec = self._config, self._model, self._spec
        package = self._package()
        slots, max_slots = self._slots()
        session_options = self._family_defaults() | model.session_options
        options = self._load_options() | self._session_options(session_options)
        load_key = self._load_key(package, options)
        return ModelEntry(
            id=model.id,
            aliases=model.aliases,
            family=model.family,
            task=self._task(),
            mode=self._mode(),
            spec=spec,
            package=package,
            files_dir=self._files_dir(),
            backend=_backend(config),
            device=_or(model.device, config.device),
            fallback=_or(model.fallback, config.fallback),
            slots=slots,
            max_slots=max_slots,
            lazy=_or(model.lazy, config.lazy_load),
            pin=model.pin,
            keep_alive_ms=_or(model.keep_alive_ms, config.idle_unload_ms or -1),
            memory_limit_mb=model.memory_limit_mb,
            busy_timeout_ms=_or(model.busy_timeout_ms, config.busy_timeout_ms),
            request_timeout_ms=_or(model.request_timeout_ms, config.request_timeout_ms),
            max_audio_s=_or(model.max_audio_seconds, config.max_audio_seconds),
            live_ingest=model.live_ingest.over(config.live_ingest) if model.live_ingest else config.live_ingest,
            resume_ms=_or(model.resume_ms, config.resume_ms),
            load_options=model.load_options,
            session_options=session_options,
            options=options,
            default_request_options=self._request_options(model.default_request_options, "default_request_options"),
            voice_presets=self._presets(),
            default_voice_preset=model.default_voice_preset,
            recordings=self._recordings(),
            load_key=load_key,
            worker_name=model.worker or load_key,
        )

    def _find_spec(self, catalog: Catalog) -> ModelSpec:
        try:
            if self._model.model_spec_override is not None:
                catalog = Catalog.load(self._config.model_spec_override, self._model.model_spec_override)
            return catalog.family(self._model.family)
        except SpecError as error:
            raise ConfigError(f"{self._at}.{error.param or 'model_spec_override'}: {error.message}") from error

    def _package(self) -> PackageSpec:
        wanted = self._model.package_id
        if wanted is None:
            return self._spec.default_package
        for package in self._spec.packages:
            if package.id == wanted:
                return package
        known = ", ".join(package.id for package in self._spec.packages)
        raise ConfigError(
            f"{self._at}.package_id: {wanted!r} is not a package of {self._model.family}; accepted: {known}"
        )

    def _files_dir(self) -> Path | None:
        path = self._model.path
        if path is None or path.is_dir():
            return path
        if path.suffix.lower() in FOREIGN_SUFFIXES:
            here = ", ".join(f"{package.id} ({package.format})" for package in self._spec.packages)
            raise ConfigError(
                f"{self._at}.path: {path.suffix[1:].upper()} files cannot be loaded here; {self._model.family} has the "
                f"packages {here}: leave path out, or give a folder with the files of one"
            )
        raise ConfigError(f"{self._at}.path: expected an existing folder, got {str(path)!r}")

    def _task(self) -> TaskName:
        wanted = self._model.task
        if wanted is None:
            return self._spec.tasks[0]
        for task in self._spec.tasks:
            if task == SPEC_TASKS.get(wanted, wanted):
                return task
        raise ConfigError(
            f"{self._at}.task: {wanted!r} is not done by {self._model.family}; accepted: {', '.join(self._spec.tasks)}"
        )

    def _mode(self) -> Mode:
        if self._model.mode not in self._spec.modes:
            raise ConfigError(
                f"{self._at}.mode: {self._model.family} cannot do {self._model.mode!r}; "
                f"accepted: {', '.join(self._spec.modes)}"
            )
        return self._model.mode

    def _slots(self) -> tuple[int, int]:
        allowed = self._spec.slots.streaming if self._model.mode == "streaming" else self._spec.slots.offline
        slots = _or(self._model.slots, allowed.default)
        if slots > allowed.max:
            raise ConfigError(f"{self._at}.slots: expected 1..{allowed.max}, got {slots}")
        return slots, allowed.max

    def _family_defaults(self) -> dict[str, str]:
        prefix = f"{self._model.family}."
        return {key: text for key, text in self._config.default_session_options.items() if key.startswith(prefix)}

    def _load_options(self) -> dict[str, OptionValue]:
        return self._checked(self._spec.options.load, self._model.load_options, "load_options", public=True)

    def _session_options(self, values: Mapping[str, str]) -> dict[str, OptionValue]:
        return self._checked(self._spec.options.session, values, "session_options", public=True)

    def _request_options(self, values: Mapping[str, str], key: str) -> dict[str, OptionValue]:
        rows = [msgspec.structs.replace(row, required=False) for row in self._spec.options.request]
        return self._checked(rows, values, key, public=False)

    def _checked(
        self, rows: Sequence[OptionSpec], values: Mapping[str, str], key: str, *, public: bool
    ) -> dict[str, OptionValue]:
        try:
            return check_options(rows, values, prefix=f"{self._model.family}." if public else "")
        except InvalidInput as error:
            raise ConfigError(f"{self._at}.{key}: {error.message}") from error

    def _presets(self) -> Mapping[str, VoicePreset]:
        for at, preset in named_presets(self._model.voice_presets, self._model.default_voice_preset):
            self._request_options(preset.options, f"{at}.options")
        return self._model.voice_presets

    def _recordings(self) -> dict[Path, bytes]:
        """Read now: what happens to the files later changes nothing."""
        presets = named_presets(self._model.voice_presets, self._model.default_voice_preset)
        return {
            preset.voice_ref: self._recording(preset.voice_ref, at=f"{self._at}.{at}.voice_ref")
            for at, preset in presets
            if preset.voice_ref is not None
        }

    def _recording(self, path: Path, *, at: str) -> bytes:
        if not self._spec.takes_reference:
            raise ConfigError(f"{at}: {self._model.family} does not speak like a recording")
        try:
            with path.open("rb") as file:
                data = file.read(MAX_RECORDING_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"{at}: {path} cannot be read: {error.strerror}") from error
        if len(data) > MAX_RECORDING_BYTES:
            raise ConfigError(f"{at}: {path} is larger than the {MAX_RECORDING_BYTES} bytes accepted")
        return data

    def _load_key(self, package: PackageSpec, options: Mapping[str, OptionValue]) -> str:
        """Package and a digest of all that makes the loaded model a different one."""
        config, model = self._config, self._model
        parts = [
            str(model.path or ""),
            str(model.model_spec_override or ""),
            _backend(config),
            _or(model.device, config.device),
            _or(model.fallback, config.fallback),
            sorted(options.items()),
        ]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return f"{package.id}-{digest[:8]}"


def _backend(config: ServerConfig) -> str:
    return "hip" if config.backend == "rocm" else config.backend


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
