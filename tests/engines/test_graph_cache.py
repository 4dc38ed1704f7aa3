"""Entries are built once, rebuilt when anything they depend on changes, and never stand in the way of a load."""

import os
from pathlib import Path

import pytest

from audiocpp.engines.runtimes.graph_cache import CacheUnusable, GraphCache
from audiocpp.engines.whole_files import UNFINISHED


class Builder:
    """Writes the source's content; counts its calls."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.calls = 0

    def __call__(self, target: Path) -> None:
        self.calls += 1
        target.write_bytes(b"optimised " + self.source.read_bytes())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "voice.onnx"
    path.write_bytes(b"one")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "graphs"


def test_an_entry_is_built_once(source: Path, folder: Path) -> None:
    build = Builder(source)
    first = GraphCache(folder).find(source, "v1", build)
    second = GraphCache(folder).find(source, "v1", build)
    assert first == second
    assert first.read_bytes() == b"optimised one"
    assert build.calls == 1


@pytest.mark.parametrize("change", ["content", "variant"])
def test_a_change_builds_anew_and_drops_the_old_entry(source: Path, folder: Path, change: str) -> None:
    build, cache = Builder(source), GraphCache(folder)
    old = cache.find(source, "v1", build)
    if change == "content":
        source.write_bytes(b"two")
    new = cache.find(source, "v2" if change == "variant" else "v1", build)
    assert build.calls == 2
    assert new.is_file()
    assert not old.exists()


def test_a_file_that_was_only_touched_keeps_its_entry(source: Path, folder: Path) -> None:
    build, cache = Builder(source), GraphCache(folder)
    entry = cache.find(source, "v1", build)
    os.utime(source, ns=(1, 1))
    assert cache.find(source, "v1", build) == entry
    assert build.calls == 1


def test_files_of_one_name_do_not_share_an_entry(source: Path, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / source.name
    other.parent.mkdir()
    other.write_bytes(b"two")
    cache = GraphCache(folder)
    entries = {cache.find(path, "v1", Builder(path)) for path in (source, other)}
    assert {entry.read_bytes() for entry in entries} == {b"optimised one", b"optimised two"}


def test_a_damaged_note_of_the_hash_is_computed_again(source: Path, folder: Path) -> None:
    build, cache = Builder(source), GraphCache(folder)
    entry = cache.find(source, "v1", build)
    for note in folder.glob("*.sha256"):
        note.write_bytes(b"\xff\xfe")
    assert cache.find(source, "v1", build) == entry


def test_a_failed_build_leaves_nothing_behind(source: Path, folder: Path) -> None:
    def build(target: Path) -> None:
        target.write_bytes(b"half")
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        GraphCache(folder).find(source, "v1", build)
    assert [path.suffix for path in folder.iterdir()] == [".sha256"]


@pytest.mark.parametrize("problem", ["Not a directory", "No space left on device"])
def test_a_folder_that_cannot_be_used_is_said_with_the_reason(source: Path, folder: Path, problem: str) -> None:
    def build(target: Path) -> None:
        raise OSError(28, "No space left on device")

    if problem == "Not a directory":
        folder.parent.write_bytes(b"")
    with pytest.raises(CacheUnusable, match=f"{folder}: {problem}"):
        GraphCache(folder).find(source, "v1", build)


def test_what_a_killed_process_was_building_is_removed_by_the_next_build(source: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    left = folder / f"{UNFINISHED}abc.ort"
    left.write_bytes(b"half")
    GraphCache(folder).find(source, "v1", Builder(source))
    assert not left.exists()


def test_what_another_process_is_building_is_left_alone(source: Path, folder: Path) -> None:
    def build(target: Path) -> None:
        GraphCache(folder).find(source, "v2", Builder(source))
        target.write_bytes(b"complete")

    assert GraphCache(folder).find(source, "v1", build).read_bytes() == b"complete"


def test_a_dropped_entry_is_built_again(source: Path, folder: Path) -> None:
    build, cache = Builder(source), GraphCache(folder)
    entry = cache.find(source, "v1", build)
    cache.drop(entry)
    cache.drop(entry)
    assert cache.find(source, "v1", build).is_file()
    assert build.calls == 2
