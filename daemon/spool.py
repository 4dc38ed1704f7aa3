"""Uploaded files on disk, under one bound for all requests together. The folder lies in the cache, never in memory."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

import trio

from audiocpp.daemon.errors import BodyTooLarge, ServerBusy

FREE_DISK_SHARE = 0.05
"""The part of the file system that uploads leave free."""


def remove_left_over(folder: Path) -> None:
    """Removes the uploads of daemons that were killed; those of one that runs are locked by it."""
    for path in folder.glob("upload-*"):
        with path.open("rb") as file:
            if _try_lock(file):
                path.unlink(missing_ok=True)


class Spool:
    """Makes files and counts in `used_bytes` what all of them hold."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self.used_bytes = 0

    async def create(self) -> "SpooledFile":
        """A new file. The caller closes it, whatever happens."""
        return await trio.to_thread.run_sync(self._create)

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes

    def _create(self) -> "SpooledFile":
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix="upload-")
        file = os.fdopen(descriptor, "wb")
        _try_lock(file)
        return SpooledFile(self, Path(name), file)

    def reserve(self, size_bytes: int, *, held_bytes: int) -> None:
        """Books disk space for a file that holds some already.

        Raises `BodyTooLarge` or `ServerBusy` with the figures when there is not enough.
        """
        if held_bytes + size_bytes > self._max_bytes:
            raise BodyTooLarge(f"an upload may take {self._max_bytes} bytes of disk space (max_spool_bytes)")
        if self.used_bytes + size_bytes > self._max_bytes:
            raise ServerBusy(f"uploads hold {self.used_bytes} of {self._max_bytes} bytes (max_spool_bytes); try again")
        disk = shutil.disk_usage(self._folder)
        if disk.free - size_bytes < disk.total * FREE_DISK_SHARE:
            raise ServerBusy(f"{self._folder} has {disk.free} bytes free, too few to take an upload")
        self.used_bytes += size_bytes


class SpooledFile:
    """One file of a spool. `path` may be handed to another process while it is open."""

    def __init__(self, spool: Spool, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self.size_bytes = 0
        self._spool = spool
        self._file = file

    async def write(self, data: bytes | bytearray) -> None:
        """Appends; another process sees the data when this returns."""
        self._spool.reserve(len(data), held_bytes=self.size_bytes)
        self.size_bytes += len(data)
        await trio.to_thread.run_sync(self._write, data)

    def _write(self, data: bytes | bytearray) -> None:
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        """Removes the file and gives its space back. May be called again."""
        self._file.close()
        self.path.unlink(missing_ok=True)
        self._spool.release(self.size_bytes)
        self.size_bytes = 0


def _try_lock(file: IO[bytes]) -> bool:
    """The lock ends when the file is closed, also by the end of the process. False when another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
