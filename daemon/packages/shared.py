"""A pull that several tasks of this process wait for."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.packages.progress import Listener, PullProgress, PullResult


class SharedPull:
    """One task pulls and reports here; others join it. A joiner hears the first message and all that follow."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._first: PullProgress | None = None
        self._ended = trio.Event()
        self._outcome: PullResult | DaemonError | None = None

    def report(self, progress: PullProgress) -> None:
        self._first = self._first or progress
        for listener in tuple(self._listeners):
            listener(progress)

    @contextmanager
    def heard_by(self, listener: Listener) -> Iterator[None]:
        if self._first is not None:
            listener(self._first)
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def end(self, outcome: PullResult | DaemonError | None) -> None:
        """None: the pulling task was cancelled, so somebody else has to pull."""
        self._outcome = outcome
        self._ended.set()

    async def joined(self, listener: Listener) -> PullResult | None:
        """The result of the pull, None when it was cancelled. Raises what it raised."""
        with self.heard_by(listener):
            await self._ended.wait()
        if isinstance(self._outcome, DaemonError):
            raise self._outcome
        return self._outcome
