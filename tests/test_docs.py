"""The documentation against the code: tables, links, commands and configurations in it are what the code has."""

import json
import re
from pathlib import Path

import pytest
from docs.tables import TABLES, updated

from audiocpp.daemon.config import load_config
from audiocpp.daemon.entries import build_registry
from audiocpp.engines.catalog import Catalog

ROOT = Path(__file__).parent.parent
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
ADRS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tables_are_those_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert updated(text) == text, "`make fix` writes the tables"


def test_every_table_is_shown_somewhere() -> None:
    shown = {
        match for page in PAGES for match in re.findall(r"<!-- table: ([\w-]+) -->", page.read_text(encoding="utf-8"))
    }
    assert shown == set(TABLES)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_make_targets_in_commands_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#\s]+\.md)\)", index)}
    assert {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - listed == {ROOT / "docs" / "README.md"}


def test_decisions_are_numbered_without_gaps_and_say_why() -> None:
    assert [int(path.name[:4]) for path in ADRS] == list(range(1, len(ADRS) + 1))
    for path in ADRS:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:4]}. "), path.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], path.name


def test_changelog_has_a_place_for_what_is_coming() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.json")), ids=name)
def test_example_configurations_can_be_used(file: Path) -> None:
    assert build_registry(load_config(file, {}, strict=True), Catalog.load()).entries


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_configurations_in_pages_can_be_used(page: Path, tmp_path: Path) -> None:
    for block in re.findall(r"^```json\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if "models" in json.loads(block):
            file = tmp_path / "server.json"
            file.write_text(block)
            build_registry(load_config(file, {}, strict=True), Catalog.load())
