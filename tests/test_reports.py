"""The faults that people met on servers of this kind, and the tests that keep them out (`tests/data/reports.json`).

A report has the fault in one line, the public thread that tells it, the tests that build its input, and, where a part
of the system is not there yet, the reason why it is for later.
"""

import ast
import json
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
REPORTS = json.loads((TESTS / "data" / "reports.json").read_text(encoding="utf-8"))


def functions(path: Path) -> dict[str, str]:
    """Name -> docstring of the tests in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name: ast.get_docstring(node) or "" for node in found if node.name.startswith("test_")}


@pytest.mark.parametrize("number", REPORTS)
def test_a_report_has_tests_or_a_reason_for_later(number: str) -> None:
    report = REPORTS[number]
    assert report["fault"]
    assert "#" in report["thread"]
    assert report.get("tests") or report.get("later")
    for test in report.get("tests", []):
        file, _, name = test.partition("::")
        assert name in functions(TESTS / file), test


@pytest.mark.parametrize("file", sorted((TESTS / "integration").glob("test_reports_*.py")), ids=lambda path: path.name)
def test_the_tests_of_a_report_are_listed_under_its_number(file: Path) -> None:
    for name, docstring in functions(file).items():
        for number in (word.rstrip(",:") for word in docstring.split() if word.rstrip(",:") in REPORTS):
            assert f"integration/{file.name}::{name}" in REPORTS[number]["tests"], number
