"""The syntax of mixed voices."""

import pytest

from audiocpp.engines.voice_mix import parse_voice_mix


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("af_heart", {"af_heart": 1.0}),
        ("af_heart(7)", {"af_heart": 1.0}),
        ("a+b", {"a": 0.5, "b": 0.5}),
        ("a(2)+b(1)", {"a": 2 / 3, "b": 1 / 3}),
        ("a(3)+b", {"a": 0.75, "b": 0.25}),
        ("a(.5)+b(1.5)", {"a": 0.25, "b": 0.75}),
        (" a ( 1 ) + b ", {"a": 0.5, "b": 0.5}),
        ("a+b+a", {"a": 2 / 3, "b": 1 / 3}),
    ],
)
def test_shares_add_up_to_one(text: str, shares: dict[str, float]) -> None:
    assert parse_voice_mix(text) == pytest.approx(shares)


@pytest.mark.parametrize(
    "text",
    ["", "+", "a+", "+b", "a(0)+b", "a(-1)+b", "a()", "a(x)", "a(1", "a b", "(2)a", "a(1e3)", "a(1234567)", "a(nan)"],
)
def test_what_is_no_mix_is_refused_with_the_syntax(text: str) -> None:
    with pytest.raises(ValueError, match=r"NAME\(WEIGHT\)\+NAME\(WEIGHT\)"):
        parse_voice_mix(text)


@pytest.mark.parametrize("text", ["+".join("abcdefghi"), "a" * 2000], ids=["many", "long"])
def test_a_mix_is_bounded(text: str) -> None:
    with pytest.raises(ValueError, match="at most 8 voices"):
        parse_voice_mix(text)
