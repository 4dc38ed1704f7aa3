"""The slots of all entries."""

from collections.abc import Callable
from weakref import WeakKeyDictionary

from audiocpp.daemon.admission import SlotQueue
from audiocpp.daemon.registry import ModelEntry


class Slots:
    """One queue for each entry. It lives as long as the entry: one that was replaced has its own until its last request
    is done.

    `on_idle` is called when nobody holds or awaits a slot of an entry any more.
    """

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._queues: WeakKeyDictionary[ModelEntry, SlotQueue] = WeakKeyDictionary()

    def of(self, entry: ModelEntry) -> SlotQueue:
        queue = self._queues.get(entry)
        if queue is None:
            queue = self._queues[entry] = SlotQueue(entry.id, entry.slots, on_idle=self._on_idle)
        return queue

    def in_use(self) -> list[ModelEntry]:
        """The entries with requests that hold or await a slot."""
        return [entry for entry, queue in self._queues.items() if not queue.idle]
