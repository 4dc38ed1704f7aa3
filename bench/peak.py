"""The most memory that processes hold while something is done."""

import threading
from types import TracebackType
from typing import Self

from bench.processes import Memory, ProcessTree

_EVERY_S = 0.02


class PeakMemory:
    """Reads the memory of `tree` while the block is executed. `peak` is the largest by proportional size.

    After the block, `after` is the memory as it was left.
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
        self.after = self._tree.memory()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.peak = max(self.peak, self._tree.memory(), key=lambda memory: memory.proportional)
