"""Refused configurations: the message starts with the field, and says what is accepted."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from audiocpp.daemon.config import load_config
from audiocpp.daemon.errors import ConfigError

ENTRY = {"id": "speech", "family": "piper_tts"}


def refusal(tmp_path: Path, text: str, *, strict: bool = False) -> str:
    file = tmp_path / "server.json"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, {}, strict=strict)
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"port": 70000}, "port: expected integer <= 65535, got 70000"),
        ({"port": "8080"}, "port: expected integer, got '8080'"),
        ({"ui": 1}, "ui: expected boolean, got 1"),
        ({"threads": 0}, "threads: expected integer >= 1, got 0"),
        ({"host": "localhost"}, "host: expected a literal IP address such as 127.0.0.1, got 'localhost'"),
        ({"voice_dir": 5}, "voice_dir: expected string, a path, got 5"),
        ({"cors_origins": "https://a"}, 'cors_origins: expected "", "*" or an array of origins, got \'https://a\''),
        (
            {"cors_origins": ["https://a/b"]},
            "cors_origins[0]: expected an origin such as https://host:port, got 'https://a/b'",
        ),
        ({"live_ingest": {"max_chunk_bytes": 0}}, "live_ingest.max_chunk_bytes: expected integer >= 1, got 0"),
        ({"live_ingest": {"idle_timeout_ms": None}}, "live_ingest.idle_timeout_ms: expected integer, got null"),
        (
            {"live_ingest": {"idle_timeout_ms": 2**31}},
            "live_ingest.idle_timeout_ms: expected integer <= 2147483647, got 2147483648",
        ),
        ({"frontend_options": {"a": "b"}}, "frontend_options: need a frontend_listener"),
        ({"default_session_options": {"threads": 4}}, "default_session_options.threads: expected a key FAMILY.OPTION"),
        ({"default_session_options": {"a.b": None}}, "default_session_options.a.b: null is not an option value"),
        ({"models": {}}, "models: expected an array, got {}"),
        ({"models": [5]}, "models[0]: expected an object, got 5"),
        ({"models": [{"family": "piper_tts"}]}, "models[0].id: required, but missing"),
        ({"models": [{"id": "a"}]}, "models[0].family: required, but missing (model a)"),
        ({"models": [ENTRY, ENTRY]}, "models[1].id: duplicate name 'speech', already used by models[0].id"),
        (
            {"models": [ENTRY, {**ENTRY, "id": "b", "aliases": ["x", "speech"]}]},
            "models[1].aliases[1]: duplicate name 'speech', already used by models[0].id",
        ),
        (
            {"models": [{**ENTRY, "id": " a"}]},
            "models[0].id: expected printable characters without space at the ends, got ' a'",
        ),
        ({"models": [{**ENTRY, "slots": 0}]}, "models[0].slots: expected integer >= 1, got 0 (model speech)"),
        (
            {"models": [{**ENTRY, "mode": "live"}]},
            "models[0].mode: expected one of 'offline', 'streaming', got 'live' (model speech)",
        ),
        (
            {"models": [{**ENTRY, "keep_alive_ms": -2}]},
            "models[0].keep_alive_ms: expected integer >= -1, got -2 (model speech)",
        ),
        (
            {"models": [{**ENTRY, "instruct": "a", "default_request_options": {"instruction": "b"}}]},
            "models[0].instruct: is also set as default_request_options.instruction; keep one of them (model speech)",
        ),
        (
            {"models": [{**ENTRY, "default_voice_preset": "x", "voice_presets": {"a": {"voice_id": "joe"}}}]},
            "models[0].default_voice_preset: 'x' does not match a preset; configured: a",
        ),
        (
            {"models": [{**ENTRY, "voice_presets": {"a": {}}}]},
            "models[0].voice_presets.a: expected at least one of voice_id, voice_ref, reference_text, options",
        ),
        (
            {"models": [{**ENTRY, "voice_presets": {"a": {"voice_id": 5}}}]},
            "models[0].voice_presets.a.voice_id: expected string, got 5 (model speech)",
        ),
        (
            {"models": [{**ENTRY, "voice_presets": {"": {"voice_id": "joe"}}}]},
            "models[0].voice_presets: a preset needs a name",
        ),
    ],
)
def test_message_names_field_value_and_what_is_accepted(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, json.dumps({"models": [ENTRY], **keys})) == message


def test_backend_names_the_accepted_ones(tmp_path: Path) -> None:
    message = refusal(tmp_path, json.dumps({"models": [ENTRY], "backend": "best"}))
    assert message.startswith("backend: ")
    assert "'auto', 'cpu', 'cuda'" in message
    assert message.endswith("got 'best'")


def test_preset_recording_must_exist(tmp_path: Path) -> None:
    message = refusal(tmp_path, json.dumps({"models": [{**ENTRY, "voice_presets": {"a": {"voice_ref": "no.wav"}}}]}))
    assert message == f"models[0].voice_presets.a.voice_ref: no such file: {tmp_path / 'no.wav'}"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"models": [], "port": 1, "port": 2}', "duplicate json object key: port"),
        ('{"models": [{"id": "a", "voice_presets": {"x": {}, "x": {}}}]}', "duplicate json object key: x"),
        ('{"models": []} {}', "Extra data"),
        ('{"threads": NaN}', "NaN is not a JSON number"),
        ("[]", "expected a JSON object"),
        ("{", "Expecting property name"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_document_that_is_not_one_object_is_refused_naming_the_file(tmp_path: Path, text: str, named: str) -> None:
    message = refusal(tmp_path, text)
    assert message.startswith(f"{tmp_path / 'server.json'}: ")
    assert named in message


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read"):
        load_config(tmp_path / "none.json", {})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"busy_timeout": 1}, "busy_timeout: unknown key; did you mean busy_timeout_ms?"),
        ({"zzz": 1}, "zzz: unknown key"),
        ({"models": [{**ENTRY, "lasy": True}]}, "models[0].lasy: unknown key; did you mean lazy?"),
        ({"live_ingest": {"idle_ms": 1}}, "live_ingest.idle_ms: unknown key; did you mean idle_timeout_ms?"),
        (
            {"models": [{**ENTRY, "voice_presets": {"a": {"voice_id": "x", "voiceref": "y"}}}]},
            "models[0].voice_presets.a.voiceref: unknown key; did you mean voice_ref?",
        ),
    ],
)
def test_unknown_key_is_a_warning_and_an_error_when_strict(
    tmp_path: Path, keys: dict[str, Any], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = json.dumps({"models": [ENTRY], **keys})
    assert refusal(tmp_path, text, strict=True) == message
    with caplog.at_level(logging.WARNING):
        load_config(tmp_path / "server.json", {})
    assert [record.getMessage() for record in caplog.records] == [message]
