"""Request bodies in the log, for `log_request_body`. Bounded, and without audio or secrets."""

import json
import logging
import re
from collections.abc import Iterable
from typing import Any

log = logging.getLogger(__name__)

MAX_PARSED_BYTES = 1 << 20
"""Of a longer body only the length is logged."""

MAX_TEXT = 500
MAX_LINE = 8000

_AUDIO = frozenset({"audio_base64", "data", "payload"})
"""Members that hold files in base64, wherever they stand."""

_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]{65,}")
"""Longer than any word: audio in a member of another name."""

_SECRET = re.compile(r"key|token(?!s)|secret|password|authori[sz]ation", re.IGNORECASE)


def log_json(body: bytes) -> None:
    """A JSON body, or what is sent for one."""
    if len(body) > MAX_PARSED_BYTES:
        _log(f"{len(body)} bytes")
        return
    try:
        shown = json.dumps(_shown(json.loads(body)), ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = f"{len(body)} bytes that are not JSON"
    _log(shown)


def log_form(parts: Iterable[tuple[str, int, str | None]]) -> None:
    """A multipart body: name, bytes, and the text of each part that is a field; None for files."""
    rows = [{"name": name, "bytes": size, **_field(name, text)} for name, size, text in parts]
    _log(json.dumps(rows, ensure_ascii=False))


def _field(name: str, text: str | None) -> dict[str, Any]:
    return {} if text is None else {"value": _member(name, text)}


def _shown(value: Any) -> Any:  # noqa: ANN401 - JSON
    match value:
        case dict():
            return {name: _member(name, item) for name, item in value.items()}
        case list():
            return [_shown(item) for item in value]
        case str():
            return _shown_text(value)
    return value


def _shown_text(text: str) -> str:
    shown = _BASE64.sub(lambda run: f"({len(run[0])} characters)", text)
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}... ({len(text)} characters)"


def _member(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if _SECRET.search(name):
        return "(hidden)"
    if name in _AUDIO and isinstance(value, str):
        return f"({len(value)} characters)"
    return _shown(value)


def _log(shown: str) -> None:
    cut = shown if len(shown) <= MAX_LINE else f"{shown[:MAX_LINE]}... ({len(shown)} characters)"
    log.info("request body", extra={"body": cut})
