"""Option values of the configuration and of requests as the reference's option maps hold them: text."""

import json


def option_text(value: object) -> str:
    """The text of a JSON value: booleans `true` and `false`, whole numbers without decimals or exponent, other numbers
    in their shortest form, arrays and objects as compact JSON.

    Raises `ValueError` for null.
    """
    match value:
        case None:
            raise ValueError("null is not an option value")
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 2**53:
            return str(int(value))
        case int() | float():
            return repr(value)
        case _:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
