"""Files of requests on disk: uploads, and replies that are too large for memory, under one bound for all together. The
folder lies in the cache, never in memory.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

from audiocpp.daemon.complaint import Complaint
from audiocpp.daemon.errors import BodyTooLarge, ServerBusy
from audiocpp.engines.whole_files import try_lock

log = logging.getLogger(__name__)

UPLOADS: Final = "upload-*"
"""The names of all files in the folder."""

FREE_DISK_SHARE = 0.05
"""The part of the file system that they leave free."""


class Spool:
    """Makes files and counts in `used_bytes` what all of them hold."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._disk = Complaint(log)
        self.used_bytes = 0

    async def create(self, what: str = "the upload") -> "SpooledFile":
        """A new file; `what` it is goes into messages. The caller closes it, whatever happens.

        Raises `ServerBusy` when there can be none.
        """
        return await trio.to_thread.run_sync(self._create, what)

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes

    def _create(self, what: str) -> "SpooledFile":
        with self.disk_errors(what):
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=UPLOADS.rstrip("*"))
        return SpooledFile(self, Path(name), descriptor, what)

    def reserve(self, size_bytes: int, *, held_bytes: int, what: str) -> None:
        """Books disk space for a file that holds some already.

        Raises `BodyTooLarge` or `ServerBusy` with the figures when there is not enough.
        """
        if held_bytes + size_bytes > self._max_bytes:
            raise BodyTooLarge(f"{what} may take {self._max_bytes} bytes of disk space (max_spool_bytes)")
        if self.used_bytes + size_bytes > self._max_bytes:
            held = f"hold {self.used_bytes} of {self._max_bytes} bytes (max_spool_bytes)"
            raise ServerBusy(f"files of other requests {held}; try again")
        with self.disk_errors(what):
            disk = shutil.disk_usage(self._folder)
        kept = int(disk.total * FREE_DISK_SHARE)
        if disk.free - size_bytes < kept:
            self._disk.say("%s has %d bytes free: nothing more is stored there", self._folder, disk.free)
            raise ServerBusy(
                f"the disk of the cache has {disk.free} bytes free and {kept} of them stay free; "
                f"{what} holds {held_bytes} and needs {size_bytes} more"
            )
        self.used_bytes += size_bytes

    @contextmanager
    def disk_errors(self, what: str) -> Iterator[None]:
        """Turns what the file system refuses into `ServerBusy`."""
        try:
            yield
        except OSError as error:
            self._disk.say("nothing can be stored in %s: %s", self._folder, error.strerror)
            raise ServerBusy(f"{what} cannot be stored: {error.strerror}") from error


class SpooledFile:
    """One file of a spool. `path` may be handed to another process while it is open."""

    def __init__(self, spool: Spool, path: Path, descriptor: int, what: str) -> None:
        self.path = path
        self._what = what
        self.size_bytes = 0
        self._spool = spool
        # Without a buffer: what could not be written would be tried again, and fail again, when the file is closed.
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        try_lock(self._file)

    async def write(self, data: bytes | bytearray) -> None:
        """Appends; another process sees the data when this returns. Raises as `Spool.reserve` does."""
        self._spool.reserve(len(data), held_bytes=self.size_bytes, what=self._what)
        self.size_bytes += len(data)
        await trio.to_thread.run_sync(self._write, data)

    async def replace(self, at: int, data: bytes) -> None:
        """Puts `data` in place of bytes that were written before."""
        await trio.to_thread.run_sync(self._replace, at, data)

    async def read(self, at: int, size_bytes: int) -> bytes:
        """What was written from `at` on, up to `size_bytes`. Raises `OSError`."""
        return await trio.to_thread.run_sync(os.pread, self._file.fileno(), size_bytes, at)

    def _replace(self, at: int, data: bytes) -> None:
        with self._spool.disk_errors(self._what):
            os.pwrite(self._file.fileno(), data, at)

    def _write(self, data: bytes | bytearray) -> None:
        rest = memoryview(data)
        with self._spool.disk_errors(self._what):
            while rest:
                rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        """Removes the file and gives its space back. May be called again."""
        self._file.close()
        self.path.unlink(missing_ok=True)
        self._spool.release(self.size_bytes)
        self.size_bytes = 0
