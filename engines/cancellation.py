"""Cancellation of a computation in progress, from another thread."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from audiocpp.engines.errors import RunCancelled


class RunControl:
    """Shared by the thread that computes and the one that may cancel.

    The computing side calls `check()` between graph runs and wraps each graph run in `terminable(stop)`; `cancel()`
    calls `stop` of the graph run in progress, if there is one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._stop: Callable[[], None] | None = None

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def check(self) -> None:
        """Raises `RunCancelled` when `cancel()` was called."""
        if self._cancelled:
            raise RunCancelled("the run was cancelled")

    def cancel(self) -> None:
        """Asks the computation to end: at the next `check()`, or by stopping the graph run in progress."""
        with self._lock:
            self._cancelled = True
            if self._stop is not None:
                self._stop()

    @contextmanager
    def terminable(self, stop: Callable[[], None]) -> Iterator[None]:
        """Lets `cancel()` end what runs inside by calling `stop`, which must not block."""
        with self._lock:
            self.check()
            self._stop = stop
        try:
            yield
        finally:
            with self._lock:
                self._stop = None
