"""JSON bodies to typed structs. The content type is ignored, so that `curl -d` works."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from audiocpp.daemon.errors import DaemonError, InvalidRequest
from audiocpp.daemon.http.body import whole_body

Body = TypeVar("Body", bound=msgspec.Struct)

MAX_COMMAS = 1 << 19
"""Every value but the first of its list or object has one before it, and a value takes up to a hundred times its text
in memory. A text with more of them could not be spoken in a day."""

_MISSING = re.compile(r"missing required field `(\w+)`")


async def read_json(struct: type[Body]) -> Body:
    """The request's body as `struct`. Raises `InvalidRequest` whose `param` is the path of the field at fault."""
    return convert(parse_object(bytes(await whole_body())), struct)


def parse_object(body: bytes, *, param: str | None = None) -> dict[str, Any]:
    """A JSON object: the body, or the field `param`. Duplicate keys, NaN, halves of characters, and anything after the
    object are refused."""
    what = param or "the body"
    if body.count(b",") > MAX_COMMAS:
        raise InvalidRequest(f"{what} has more than {MAX_COMMAS} commas", param=param)
    try:
        value = json.loads(body, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
        _check_texts(value)
    except (ValueError, RecursionError) as error:
        reason = "it is empty" if not body.strip() else str(error) or "it is nested too deeply"
        raise InvalidRequest(f"{what} is not valid JSON: {reason}", param=param) from error
    if not isinstance(value, dict):
        raise InvalidRequest(f"{what} must be a JSON object, not {json_type(value)}", param=param)
    return value


def convert(value: dict[str, Any], struct: type[Body], *, at: str = "") -> Body:
    """A parsed object as `struct`; unknown fields are ignored. `at` prefixes `param`."""
    try:
        return msgspec.convert(value, struct)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        path = f"{at}{where.rstrip('`')}"
        if missing := _MISSING.search(what):
            param = f"{path}.{missing[1]}".lstrip(".")
            raise InvalidRequest(f"{param} is required", param=param) from error
        param = path.lstrip(".")
        raise InvalidRequest(f"{param}: {what[0].lower()}{what[1:].replace('`', '')}", param=param) from error


@contextmanager
def inside(at: str) -> Iterator[None]:
    """Errors of the block that name a field name it below `at`, the path of the object that the block reads."""
    try:
        yield
    except DaemonError as error:
        if at and error.param is not None:
            error.param = f"{at}.{error.param}"
        raise


def json_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
    return "a number"


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate json object key: {_quoted(key)}")
        result[key] = value
    return result


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _check_texts(value: object) -> None:
    """JSON can spell lone surrogates, which are no characters: no reply, log line or worker message could hold them."""
    match value:
        case str():
            if not value.isascii() and value != _quoted(value):
                raise ValueError(f"{_quoted(value)!r} has half of a surrogate pair")
        case list():
            for item in value:
                _check_texts(item)
        case dict():
            for key, item in value.items():
                _check_texts(key)
                _check_texts(item)


def _quoted(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
