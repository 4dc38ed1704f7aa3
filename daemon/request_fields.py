"""Fields that several routes share, in their lenient forms."""

from typing import Annotated

from msgspec import Meta

from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.registry import ModelEntry

Flag = bool | str | None
"""A boolean, or one of its texts. Read it with `flag`."""

Milliseconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]

_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def flag(value: Flag, param: str, *, default: bool = False) -> bool:
    """`true`, `false`, or their texts `true`, `false`, `1`, `0` (also capitalised, as Python prints them)."""
    if isinstance(value, bool):
        return value
    if value is None or value == "":
        return default
    known = _FLAGS.get(value.lower())
    if known is None:
        raise InvalidRequest(f"{param}: {value!r} is none of true, false, 1, 0", param=param)
    return known


def whole_number(text: str | None, param: str, *, low: int, high: int) -> int | None:
    """The number that a form field or query parameter holds; None when it is absent or empty."""
    if text is None or text == "":
        return None
    try:
        number = int(text) if text.isascii() and len(text) <= 20 else None
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        raise InvalidRequest(f"{param}: {text!r} is not a whole number from {low} to {high}", param=param)
    return number


def busy_timeout(text: str | None) -> int | None:
    return whole_number(text, "busy_timeout_ms", low=0, high=2**31 - 1)


def language_tag(entry: ModelEntry, language: str | None) -> str:
    """A BCP-47 tag reduced to what the entry's package takes; empty for none given.

    `en-US`, `en_us` and `EN` are `en` where the package lists `en`. Raises `InvalidRequest` listing what it takes.
    A package that lists no languages takes any.
    """
    wanted = (language or "").strip()
    accepted = entry.package.languages or entry.spec.languages
    if not wanted or not accepted:
        return wanted
    tag = wanted.lower().replace("_", "-")
    by_tag = {code.lower().replace("_", "-"): code for code in accepted}
    primary = {code.partition("-")[0]: by_tag[code] for code in sorted(by_tag, reverse=True)}
    found = by_tag.get(tag) or primary.get(tag.partition("-")[0])
    if found is None:
        raise InvalidRequest(
            f"language {wanted!r} is not spoken by {entry.id!r}; accepted are, for example: {', '.join(accepted[:8])}",
            param="language",
        )
    return found
