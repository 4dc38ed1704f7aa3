"""Checks option values against the option rows of a spec, which are the only list of what a family takes."""

import math
from collections.abc import Mapping, Sequence

from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.spec import OptionSpec
from audiocpp.engines.tasks import OptionValue

WHOLE_NUMBERS = range(-(2**63), 2**64)
"""What a worker can be sent."""

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def check_options(
    rows: Sequence[OptionSpec], values: Mapping[str, object], *, prefix: str = ""
) -> dict[str, OptionValue]:
    """`values` in their declared types, by local name.

    Text is read as the declared type where it says one ("0.5", "true"), since option maps of clients and of the
    configuration often hold text only. Absent options stay absent: the family knows its own defaults.

    Args:
        rows: the rows of one scope.
        values: as given, by public key: `prefix` and the local name.
        prefix: `<family>.` for session and load options.

    Raises:
        InvalidInput: an unknown option, a wrong type, a value outside its range, or a required one missing. `param`
            is the public key.
    """
    known = {prefix + row.name: row for row in rows}
    checked: dict[str, OptionValue] = {}
    for key, value in values.items():
        if key not in known:
            accepted = ", ".join(sorted(known)) or "none"
            raise InvalidInput(f"unknown option {key!r}; accepted: {accepted}", param=key)
        try:
            checked[known[key].name] = check_option(known[key], value)
        except ValueError as error:
            raise InvalidInput(f"option {key!r}: {error}", param=key) from error
    for key, row in known.items():
        if row.required and row.name not in checked:
            raise InvalidInput(f"option {key!r} is required: {row.description}", param=key)
    return checked


def check_option(row: OptionSpec, value: object) -> OptionValue:
    """`value` in the declared type of `row`. Raises `ValueError` that says what is accepted."""
    if row.type == "bool":
        return _boolean(value)
    if row.type in ("int", "float"):
        return _number(row, value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    if row.type == "enum" and value not in row.values:
        raise ValueError(f"{value!r} is none of {', '.join(row.values)}")
    return value


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _BOOLEANS:
        return _BOOLEANS[value]
    raise ValueError(f"{value!r} is neither true nor false")


def _number(row: OptionSpec, value: object) -> int | float:
    number = _parsed(row, value)
    low = -math.inf if row.min is None else row.min
    high = math.inf if row.max is None else row.max
    if not (math.isfinite(number) and low <= number <= high):
        raise ValueError(f"{value!r} is outside {low:g}..{high:g}")
    return number


def _parsed(row: OptionSpec, value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")
    try:
        if row.type == "float":
            return float(value)
        whole = int(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{value!r} is not {'a number' if row.type == 'float' else 'a whole number'}") from error
    if (isinstance(value, float) and whole != value) or whole not in WHOLE_NUMBERS:
        raise ValueError(f"{value!r} is not a whole number of 64 bits")
    return whole
