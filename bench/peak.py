"""The memory that processes hold while something is done, and after."""

import threading
import time
from types import TracebackType
from typing import Self

from bench.processes import Memory, ProcessTree

_EVERY_S = 0.02
_IDLE_S = 3.0


class PeakMemory:
    """Reads the memory of `tree` while the block is executed. `peak` is the largest by proportional size.

    `after` is what they still hold when they have been idle for a while.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self.peak = Memory()
        self.after = Memory()
        self._tree = tree
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        time.sleep(_IDLE_S)
        self.after = self._tree.memory()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.peak = max(self.peak, self._tree.memory(), key=lambda memory: memory.proportional)
