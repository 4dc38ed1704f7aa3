"""One lock file per package, so that pulls in several processes do not meet."""

import fcntl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import trio

_RETRY_S = 0.2


@asynccontextmanager
async def package_lock(path: Path, *, waiting: Callable[[], None]) -> AsyncIterator[None]:
    """Holds the lock of `path`. `waiting` is called once if somebody else holds it.

    The lock ends with its process, however that ends. Waiting can be cancelled.
    """
    with path.open("ab") as file:
        if not try_lock(file):
            waiting()
            while not try_lock(file):  # noqa: ASYNC110 - a lock of another process wakes nobody here
                await trio.sleep(_RETRY_S)
        yield


def try_lock(file: IO[bytes]) -> bool:
    """Takes the lock, which closing `file` gives back. False when somebody else, in any process, holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
