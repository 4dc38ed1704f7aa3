"""The rules a spec is held to, and that the bundled ones and the schema keep to them."""

import json
from importlib.resources import files
from typing import Any

import jsonschema
import msgspec
import pytest

from audiocpp.engines.catalog import Catalog
from audiocpp.engines.errors import SpecError
from audiocpp.engines.families import FAMILIES
from audiocpp.engines.spec_rules import parse_spec
from audiocpp.engines.spec_schema import spec_schema

SPECS = files("audiocpp").joinpath("model_specs")
BUNDLED = sorted(entry.name for entry in SPECS.iterdir() if entry.name != "schema.json")


def bundled(name: str) -> Any:
    return json.loads(SPECS.joinpath(name).read_bytes())


def parse(document: Any) -> None:
    parse_spec(json.dumps(document).encode(), origin="some.json")


def test_the_schema_file_is_what_the_types_say() -> None:
    """Else: python -m audiocpp.engines.spec_schema > model_specs/schema.json."""
    assert bundled("schema.json") == json.loads(json.dumps(spec_schema()))
    jsonschema.Draft202012Validator.check_schema(spec_schema())


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_spec_is_valid_by_the_schema(name: str) -> None:
    jsonschema.Draft202012Validator(bundled("schema.json")).validate(bundled(name))


def test_the_schema_refuses_an_unknown_field() -> None:
    document = bundled("silero_vad.json") | {"colour": "blue"}
    with pytest.raises(jsonschema.ValidationError, match="colour"):
        jsonschema.Draft202012Validator(bundled("schema.json")).validate(document)


def test_every_family_with_a_spec_has_code() -> None:
    assert set(Catalog.load().families) <= set(FAMILIES)


def test_the_size_of_a_package_is_that_of_its_files() -> None:
    _, package = Catalog.load().package("moonshine_tiny_en")
    assert package.size_bytes == 13_281_600 + 30_412_256 + 249_974


def changed(path: str, value: Any) -> Any:
    """The spec of Piper with the field at `path` (keys and indices separated by dots) set to `value`."""
    document = {"companions": {}} | bundled("piper_tts.json")
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = document
    for part in parents:
        place = place[part]
    place[last] = value
    return document


FILE = "packages.0.files.0"
FAULTS = [
    ("colour", "blue", r"\$: .*unknown field `colour`"),
    ("schema_version", 2, r"\$\.schema_version: "),
    ("tasks", ["sing"], r"\$\.tasks\[0\]: .*'sing'"),
    ("tasks", [], r"\$\.tasks: "),
    ("runtime", ["gguf"], r"\$\.runtime\[0\]: .*'gguf'"),
    ("slots.offline", {"default": 3, "max": 17}, r"\$\.slots\.offline\.max: .*16"),
    ("slots.offline", {"default": 3, "max": 2}, r"\$\.slots\.offline\.default: 3 is above max 2"),
    ("capabilities", {"tts": ["speaker_reference"]}, r"\$\.input_sample_rate_hz: .*48000"),
    ("packages", [], r"\$\.packages: "),
    ("packages.0.default", False, r"\$\.packages: exactly one must be the default, not 0"),
    ("packages.0.id", "a/b", r"\$\.packages\[0\]\.id: "),
    ("packages.0.target_directory", "..", r"\$\.packages\[0\]\.target_directory: "),
    (f"{FILE}.sha256", "ABC", r"\$\.packages\[0\]\.files\[0\]\.sha256: "),
    (f"{FILE}.size_bytes", 0, r"\$\.packages\[0\]\.files\[0\]\.size_bytes: "),
    (f"{FILE}.sources", [], r"\$\.packages\[0\]\.files\[0\]\.sources: "),
    (f"{FILE}.sources.0.kind", "ftp", r"\$\.packages\[0\]\.files\[0\]\.sources\[0\]\.kind: .*'ftp'"),
    (f"{FILE}.name", "../escape.onnx", r"\$\.packages\[0\]\.files\[0\]\.name: .*inside"),
    (f"{FILE}.name", "/absolute.onnx", r"\$\.packages\[0\]\.files\[0\]\.name: "),
    (f"{FILE}.name", ".package.json", r"\$\.packages\[0\]\.files\[0\]\.name: .*hidden"),
    (f"{FILE}.name", "en_US-joe-medium.onnx.json", r"\$\.packages\[0\]\.files: the name .* occurs 2 times"),
    (f"{FILE}.role", "config", r"\$\.packages\[0\]\.files: the role for one provider 'config/cpu' occurs 2 times"),
    (
        "companions",
        {"model": {"package": "a", "role": "b"}},
        r"\$\.packages\[0\]\.files\[0\]\.role: 'model' is the role",
    ),
    ("options.request.0.default", 9.0, r"\$\.options\.request\[0\]\.default: 9\.0 is outside 0\.25\.\.4"),
    ("options.request.0.values", ["fast"], r"\$\.options\.request\[0\]\.values: an enum, and nothing else"),
    ("options.request.0.required", True, r"\$\.options\.request\[0\]\.default: a required option has no default"),
    ("options.request.0.type", "string", r"\$\.options\.request\[0\]: min and max have no meaning"),
    ("options.request.0.name", "noise_w", r"\$\.options\.request: the name 'noise_w' occurs 2 times"),
]


@pytest.mark.parametrize(("path", "value", "message"), FAULTS)
def test_a_fault_is_said_with_file_and_field(path: str, value: Any, message: str) -> None:
    with pytest.raises(SpecError, match=rf"^some\.json: {message}"):
        parse(changed(path, value))


def test_what_is_not_json_is_said_with_the_file() -> None:
    with pytest.raises(SpecError, match=r"^some\.json: not JSON: "):
        parse_spec(b"{", origin="some.json")


@pytest.mark.parametrize("name", BUNDLED)
def test_reading_and_writing_a_spec_changes_nothing(name: str) -> None:
    spec = parse_spec(SPECS.joinpath(name).read_bytes(), origin=name)
    assert parse_spec(msgspec.json.encode(spec), origin=name) == spec
