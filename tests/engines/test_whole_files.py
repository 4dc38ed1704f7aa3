"""Files appear whole or not at all, and nothing stays of those that did not."""

from pathlib import Path

import pytest

from audiocpp.engines.whole_files import UNFINISHED, remove_left_over, replacing


def write_half(target: Path) -> None:
    with replacing(target) as fresh:
        fresh.write_text("ne")
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("durable", [True, False])
def test_the_new_content_takes_the_place_of_the_old_at_the_end(tmp_path: Path, durable: bool) -> None:
    target = tmp_path / "memory.json"
    target.write_text("old")
    with replacing(target, durable=durable) as fresh:
        fresh.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "memory.json"
    target.write_text("old")
    with pytest.raises(OSError, match="No space"):
        write_half(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_only_what_nobody_writes_any_more_is_removed(tmp_path: Path) -> None:
    left, other = tmp_path / f"{UNFINISHED}left.json", tmp_path / "other.json"
    left.touch()
    other.touch()
    with replacing(tmp_path / "memory.json") as fresh:
        remove_left_over(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {fresh.name, other.name}
        fresh.touch()
    remove_left_over(tmp_path / "no such folder")
