"""A real file system that is soon full."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BLOCK_BYTES = 4096


class SmallDisk:
    """A mounted file system in memory. Use `small_disk`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Takes what is free but for some bytes."""
        free = shutil.disk_usage(self.folder).free
        blocks = max(free - leave_bytes, 0) // BLOCK_BYTES
        (self.folder / "filling").write_bytes(bytes(blocks * BLOCK_BYTES))

    def empty(self) -> None:
        """Gives back what `fill` took."""
        (self.folder / "filling").unlink()

    def remount(self, options: str) -> None:
        _mount("-o", f"remount,{options}", str(self.folder))

    def files(self) -> list[str]:
        """Names of all files on it but for the filling."""
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file() and path.name != "filling")


@contextmanager
def small_disk(folder: Path, *, mib: int) -> Iterator[SmallDisk]:
    """Mounts a file system of `mib` MiB on `folder`, which is made. Skips the test where that is not allowed."""
    folder.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", str(folder))
    except (FileNotFoundError, PermissionError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", folder], check=True)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise PermissionError(done.stderr.strip())
