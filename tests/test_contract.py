"""What the tests and clients of the reference server assert, and the tests here that do (`tests/data/contract.json`).

A row with `instead` is overridden on purpose: it says what holds here and why.
"""

import json
from pathlib import Path

import pytest
from tests.test_reports import functions

TESTS = Path(__file__).parent
ROWS = json.loads((TESTS / "data" / "contract.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=[row["says"] for row in ROWS])
def test_a_row_has_tests_that_exist(row: dict[str, list[str]]) -> None:
    assert row["tests"]
    for test in row["tests"]:
        file, _, name = test.partition("::")
        assert name in functions(TESTS / file), test


def test_an_overridden_row_has_its_reason() -> None:
    overridden = [row for row in ROWS if "instead" in row]
    assert overridden
    assert all(len(row["instead"]) > 20 for row in overridden)
    assert set().union(*ROWS) == {"from", "says", "tests", "instead"}
