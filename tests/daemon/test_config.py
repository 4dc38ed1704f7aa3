"""The keys of the configuration: defaults, bounds, and what the message of each refusal names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audiocpp.daemon.config import LiveIngest, ServerConfig, effective, load_config
from audiocpp.daemon.errors import ConfigError

Load = Callable[..., ServerConfig]
ENTRY = {"id": "speech", "family": "piper_tts"}


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a configuration of the given keys; `models` has one plain entry unless given."""

    def load(overrides: dict[str, object] | None = None, *, strict: bool = False, **keys: Any) -> ServerConfig:
        file = tmp_path / "server.json"
        file.write_text(json.dumps({"models": [ENTRY], **keys}))
        return load_config(file, overrides or {}, strict=strict)

    return load


def test_defaults_are_those_of_the_reference_and_the_backend_is_auto(load: Load) -> None:
    config = load()
    assert (config.host, config.port, config.backend, config.device) == ("127.0.0.1", 8080, "auto", 0)
    assert (config.ui, config.ui_management, config.lazy_load, config.log_request_body) == (True, False, False, False)
    assert config.busy_timeout_ms == 300_000
    assert config.max_request_body_bytes == 2_147_483_648
    assert (config.max_loaded_models, config.idle_unload_ms, config.min_free_memory_mb) == (0, 0, 0)
    assert config.resample_kernel_cache_mb == 32
    assert (config.cors_origins, config.frontend_listener) == ("", "")
    assert config.live_ingest == LiveIngest(
        idle_timeout_ms=30_000,
        total_timeout_ms=600_000,
        max_body_bytes=536_870_912,
        max_chunk_bytes=8_388_608,
        send_timeout_ms=30_000,
    )


def test_defaults_of_our_own_keys(load: Load) -> None:
    config = load()
    assert (config.max_audio_seconds, config.max_spool_bytes, config.max_connections) == (14_400, 4 * 2**30, 512)
    assert (config.request_timeout_ms, config.max_resident_memory_mb, config.resume_ms) == (0, 0, 30_000)
    assert config.threads is None
    assert (config.fallback, config.api_keys, config.audio_roots, config.admin_socket) == ("", (), (), None)
    assert (config.models[0].pin, config.models[0].memory_limit_mb, config.models[0].aliases) == (False, 0, ())


def test_option_values_become_text(load: Load) -> None:
    options = {"steps": 8, "noise": 0.6, "whole": 1.0, "big": 12345678901234567890, "on": False, "list": [1, "é"]}
    config = load(models=[{**ENTRY, "default_request_options": options}])
    assert config.models[0].default_request_options == {
        "steps": "8",
        "noise": "0.6",
        "whole": "1",
        "big": "12345678901234567890",
        "on": "false",
        "list": '[1,"é"]',
    }


def test_instruct_is_short_for_a_request_option(load: Load) -> None:
    config = load(models=[{**ENTRY, "instruct": "calm", "default_request_options": {"seed": 1}}])
    assert config.models[0].default_request_options == {"seed": "1", "instruct": "calm"}


@pytest.mark.parametrize("key", ["busy_timeout_ms", "max_loaded_models", "idle_unload_ms", "min_free_memory_mb"])
def test_counts_may_be_zero_or_more(load: Load, key: str) -> None:
    assert getattr(load(**{key: 7}), key) == 7
    assert getattr(load(**{key: 0}), key) == 0
    with pytest.raises(ConfigError, match=rf"^{key}: expected integer >= 0, got -1$"):
        load(**{key: -1})


def test_body_limit_is_a_whole_number_that_json_can_hold(load: Load) -> None:
    assert load(max_request_body_bytes=0).max_request_body_bytes == 0
    assert load(max_request_body_bytes=2**53 - 1).max_request_body_bytes == 2**53 - 1
    assert load(max_request_body_bytes=1024.0).max_request_body_bytes == 1024
    for refused in (-1, 2**53, 2**53 + 1, 1.5, "10"):
        with pytest.raises(ConfigError, match=r"^max_request_body_bytes: "):
            load(max_request_body_bytes=refused)


def test_busy_timeout_of_a_model_is_its_own_or_absent(load: Load) -> None:
    own, absent = load(busy_timeout_ms=10, models=[{**ENTRY, "busy_timeout_ms": 20}, {**ENTRY, "id": "b"}]).models
    assert (own.busy_timeout_ms, absent.busy_timeout_ms) == (20, None)


def test_negative_busy_timeout_of_a_model_names_the_model(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"^models\[1\]\.busy_timeout_ms: .* -1 \(model slow\)$"):
        load(models=[ENTRY, {**ENTRY, "id": "slow", "busy_timeout_ms": -1}])


def test_no_models_is_allowed_with_ui_management_only(load: Load) -> None:
    assert load(ui=False, ui_management=True, models=[]).models == ()
    with pytest.raises(ConfigError, match=r"^models: .*ui_management"):
        load(models=[])


def test_without_a_file_the_server_starts_lazily_without_models() -> None:
    config = load_config(None, {"port": 0})
    assert (config.models, config.lazy_load, config.port) == ((), True, 0)


def test_default_voice_preset_keeps_the_name_and_makes_no_preset(load: Load) -> None:
    presets = {"assistant": {"voice_id": "joe"}}
    model = load(models=[{**ENTRY, "voice_presets": presets, "default_voice_preset": "assistant"}]).models[0]
    assert model.default_voice_preset == "assistant"
    assert list(model.voice_presets) == ["assistant"]


def test_relative_paths_count_from_the_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "anna.wav").touch()
    preset = {"voice_ref": "voices/anna.wav"}
    config = load(
        voice_dir="voices",
        models_root="models",
        api_keys={"file": "keys"},
        models=[{**ENTRY, "path": "piper", "voice_presets": {"anna": preset}, "default_voice_preset": preset}],
    )
    model = config.models[0]
    assert (config.voice_dir, config.models_root, model.path) == (
        tmp_path / "voices",
        tmp_path / "models",
        tmp_path / "piper",
    )
    assert model.voice_presets["anna"].voice_ref == tmp_path / "voices" / "anna.wav"
    assert model.default_voice_preset == model.voice_presets["anna"]


def test_overrides_win_and_their_paths_count_from_the_working_directory(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere" / "voices").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = load({"port": 9000, "voice_dir": "voices", "backend": None}, port=8000, backend="cpu")
    assert (config.port, config.backend) == (9000, "cpu")
    assert config.voice_dir == tmp_path / "elsewhere" / "voices"


def test_options_of_the_listener_are_merged_with_those_of_the_file(load: Load) -> None:
    overrides: dict[str, object] = {"frontend_options": {"b": "3"}}
    config = load(overrides, frontend_listener="https", frontend_options={"a": "1", "b": "2"})
    assert config.frontend_options == {"a": "1", "b": "3"}


def test_an_override_that_is_no_key_is_a_programming_error(load: Load) -> None:
    with pytest.raises(ValueError, match="no_such_key"):
        load({"no_such_key": 1})


def test_limits_of_a_model_lie_over_those_of_the_server(load: Load) -> None:
    config = load(
        live_ingest={"idle_timeout_ms": 1, "total_timeout_ms": 2},
        models=[{**ENTRY, "live_ingest": {"total_timeout_ms": 0}}],
    )
    override = config.models[0].live_ingest
    assert override is not None
    assert override.over(config.live_ingest) == LiveIngest(idle_timeout_ms=1, total_timeout_ms=0)


def test_effective_configuration_is_json_and_hides_keys(load: Load, tmp_path: Path) -> None:
    shown = effective(load(api_keys=["s3cret"], models_root="models"))
    text = json.dumps(shown)
    assert "s3cret" not in text
    assert shown["models_root"] == str(tmp_path / "models")
    assert shown["models"][0]["id"] == "speech"


def test_effective_configuration_can_be_loaded_again(load: Load, tmp_path: Path) -> None:
    config = load(cors_origins=["https://a.example"], api_keys={"file": "keys"})
    again = tmp_path / "again.json"
    again.write_text(json.dumps(effective(config)))
    assert load_config(again, {}, strict=True) == config


def test_key_that_changes_nothing_yet_is_logged_when_it_is_set(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    load(resample_kernel_cache_mb=32, models=[{**ENTRY, "weight": None}])
    assert caplog.messages == []
    load(resample_kernel_cache_mb=0, models=[{**ENTRY, "weight": "x"}])
    assert caplog.messages == [
        "resample_kernel_cache_mb: has no effect in this version",
        "models[0].weight: has no effect in this version",
    ]
