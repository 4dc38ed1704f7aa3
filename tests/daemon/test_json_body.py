"""JSON objects of requests: what is refused before any field is looked at."""

import pytest

from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.json_body import MAX_COMMAS, parse_object


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (rb'{"input": "a \ud800 b"}', r"'a \\ud800 b' has half of a surrogate pair"),
        (b'{"input": "a \xed\xa0\x80 b"}', r"'a \\ud800 b' has half of a surrogate pair"),
        (rb'{"options": {"x": ["\udfff"]}}', r"'\\udfff' has half of a surrogate pair"),
        (rb'{"\ud800": 1}', r"'\\ud800' has half of a surrogate pair"),
        (rb'{"\ud800": 1, "\ud800": 2}', r"duplicate json object key: \ud800"),
        (rb'{"input": 1, "inp\u0075t": 2}', "duplicate json object key: input"),
        (b'{"a": {"b": [{"c": 1, "c": 2}]}}', "duplicate json object key: c"),
    ],
    ids=["escaped", "raw", "nested", "key", "duplicate key", "spelt otherwise", "nested duplicate"],
)
def test_what_json_can_spell_but_no_request_means_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_object(body)
    assert caught.value.message == f"the body is not valid JSON: {reason}"


def test_every_character_is_taken() -> None:
    assert parse_object(rb'{"input": "\ud83d\ude00 \u0000"}') == {"input": "\N{GRINNING FACE} \0"}


def test_more_values_than_any_request_has_are_not_parsed() -> None:
    with pytest.raises(InvalidRequest, match=f"more than {MAX_COMMAS} commas"):
        parse_object(b'{"input": [' + b"[]," * MAX_COMMAS + b"[], []]}")


def test_nesting_beyond_reason_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="not valid JSON"):
        parse_object(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)


def test_a_field_is_named() -> None:
    with pytest.raises(InvalidRequest, match="options must be a JSON object, not a string") as caught:
        parse_object(b'"x"', param="options")
    assert caught.value.param == "options"
