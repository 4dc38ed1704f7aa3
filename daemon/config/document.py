"""Reads a JSON document as the configuration wants it: no duplicate keys, no NaN, whole numbers as int."""

import json
from pathlib import Path
from typing import Any

from audiocpp.daemon.errors import ConfigError


def read_document(path: Path) -> dict[str, Any]:
    """The object in the file. Raises `ConfigError` naming the file and what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse_document(text, name=str(path))


def parse_document(text: str, *, name: str) -> dict[str, Any]:
    """As `read_document`, of a text; `name` stands for the file in messages."""
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys, parse_float=_number, parse_constant=_no_constant)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{name}: expected a JSON object, got {type(document).__name__}")
    return document


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate json object key: {key}")
        result[key] = value
    return result


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")
