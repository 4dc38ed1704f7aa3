"""What option values are taken for, by their rows."""

import pytest

from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.options import check_options
from audiocpp.engines.spec import OptionSpec, OptionType
from audiocpp.engines.tasks import OptionValue


def row(name: str, kind: OptionType, *, low: float | None = None, high: float | None = None) -> OptionSpec:
    values = ("on", "off") if kind == "enum" else ()
    return OptionSpec(name=name, type=kind, description=name, min=low, max=high, values=values)


ROWS = [
    row("flag", "bool"),
    row("count", "int", low=1, high=8),
    row("rate", "float", low=0.25, high=4),
    row("free", "float"),
    row("text", "string"),
    row("seed", "int"),
    row("vad", "enum"),
]


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("flag", True, True),
        ("flag", "false", False),
        ("flag", "1", True),
        ("count", 8, 8),
        ("count", "3", 3),
        ("count", 3.0, 3),
        ("seed", str(2**63 + 1), 2**63 + 1),
        ("seed", str(2**64 - 1), 2**64 - 1),
        ("rate", 1, 1.0),
        ("rate", "0.25", 0.25),
        ("free", -1e9, -1e9),
        ("text", "1", "1"),
        ("vad", "off", "off"),
    ],
)
def test_a_value_is_taken_in_its_declared_type(name: str, given: object, taken: OptionValue) -> None:
    checked = check_options(ROWS, {name: given})
    assert checked == {name: taken}
    assert type(checked[name]) is type(taken)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("flag", "yes", "neither true nor false"),
        ("flag", 1, "neither true nor false"),
        ("count", 0, r"outside 1\.\.8"),
        ("count", 9, r"outside 1\.\.8"),
        ("count", 1.5, "not a whole number"),
        ("count", "1.5", "not a whole number"),
        ("count", True, "not a number"),
        ("seed", str(2**64), "64 bits"),
        ("seed", 1e300, "64 bits"),
        ("seed", "9" * 400, "64 bits"),
        ("seed", float("inf"), "not a whole number"),
        ("rate", "fast", "not a number"),
        ("rate", 0.2, r"outside 0\.25\.\.4"),
        ("free", float("nan"), r"outside -inf\.\.inf"),
        ("free", "inf", r"outside -inf\.\.inf"),
        ("text", 1, "not text"),
        ("vad", "maybe", "none of on, off"),
        ("vad", None, "not text"),
    ],
)
def test_another_value_is_refused_with_its_name_and_what_is_accepted(name: str, given: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^option '{name}': .*{message}") as refusal:
        check_options(ROWS, {name: given})
    assert refusal.value.param == name


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="unknown option 'sped'; accepted: count, flag, free, rate, seed, text, vad"):
        check_options(ROWS, {"sped": 1})


def test_a_prefix_is_part_of_the_public_name_only() -> None:
    assert check_options([row("count", "int")], {"toy.count": "4"}, prefix="toy.") == {"count": 4}
    with pytest.raises(InvalidInput, match=r"unknown option 'count'; accepted: toy\.count"):
        check_options([row("count", "int")], {"count": "4"}, prefix="toy.")


def test_a_required_option_must_be_there() -> None:
    required = OptionSpec(name="text", type="string", description="What to say.", required=True)
    with pytest.raises(InvalidInput, match="option 'text' is required: What to say"):
        check_options([required], {})


def test_absent_options_stay_absent() -> None:
    assert check_options(ROWS, {}) == {}
