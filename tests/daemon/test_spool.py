"""Uploads on disk: whose they are, and when they go."""

import subprocess
import sys
from pathlib import Path

import trio

from audiocpp.daemon.spool import UPLOADS, Spool
from audiocpp.engines.whole_files import remove_left_over


def others_view(folder: Path) -> None:
    """What another daemon's start does to the folder."""
    command = "import sys, pathlib; from audiocpp.engines.whole_files import remove_left_over as remove"
    arguments = f"pathlib.Path(sys.argv[1]), {UPLOADS!r}"
    subprocess.run([sys.executable, "-c", f"{command}; remove({arguments})", folder], check=True)


async def test_a_daemon_that_starts_leaves_the_uploads_of_one_that_runs(tmp_path: Path) -> None:
    with trio.fail_after(10):
        upload = await Spool(tmp_path, max_bytes=100).create()
        await upload.write(b"abc")
        others_view(tmp_path)
        assert upload.path.read_bytes() == b"abc"
        upload.close()
        assert not upload.path.exists()


def test_what_a_killed_daemon_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "upload-1").write_bytes(b"abc")
    (tmp_path / "other").mkdir()
    remove_left_over(tmp_path, UPLOADS)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    remove_left_over(tmp_path / "none", UPLOADS)
