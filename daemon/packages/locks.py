"""One lock file per package, so that pulls in several processes do not meet."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from audiocpp.engines.whole_files import try_lock

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
