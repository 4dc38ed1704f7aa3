"""Files that appear whole or not at all, and what is left of those that a killed process was writing."""

import fcntl
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

log = logging.getLogger(__name__)

UNFINISHED: Final = ".new-"
"""How the name of a file begins that has not taken its place yet."""


@contextmanager
def replacing(target: Path, *, durable: bool = True) -> Iterator[Path]:
    """A temporary file beside `target` that takes its place at the end of the block, complete; else it is removed.

    `durable`: it is on the disk before. Without that a power cut may leave an empty file. Raises `OSError`.
    """
    handle, name = tempfile.mkstemp(prefix=UNFINISHED, suffix=target.suffix, dir=target.parent)
    temporary = Path(name)
    with os.fdopen(handle, "rb") as file:
        try_lock(file)
        try:
            yield temporary
            if durable:
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def remove_left_over(folder: Path, pattern: str = f"{UNFINISHED}*") -> None:
    """Removes the files of processes that were killed; those of one that runs are locked by it.

    What cannot be removed is said in the log and left.
    """
    for path in folder.glob(pattern):
        try:
            with path.open("rb") as file:
                if try_lock(file):
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue  # finished or removed meanwhile
        except OSError as error:
            log.warning("%s is left over and cannot be removed: %s", path, error.strerror)


def try_lock(file: IO[bytes]) -> bool:
    """Takes the lock, which closing `file` gives back, also at the end of the process. False when it is held."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
