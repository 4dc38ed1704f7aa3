"""The memory that processes hold while something is done, and after."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.processes import Memory, ProcessTree

_EVERY_S = 0.02
_IDLE_S = 8.0
"""A worker gives freed memory back when it has been idle for 5 s."""


@dataclass(frozen=True, slots=True)
class Watched:
    """`peak`: the reading with the most proportional memory. `after`: once idle for a while."""

    peak: Memory
    after: Memory


def watched(tree: ProcessTree, execute: Callable[[], object]) -> Watched:
    """Executes once, reading the memory of `tree` all the while. It takes processor time from what is executed."""
    readings = [tree.memory()]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            readings.append(tree.memory())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        execute()
    finally:
        ended.set()
        thread.join()
    time.sleep(_IDLE_S)
    return Watched(max(readings, key=lambda memory: memory.proportional), tree.memory())
