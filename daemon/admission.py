"""Who may start: per model entry, first come first served over its slots. A slot is a place, not a thread."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from audiocpp.daemon.busy import is_overdue
from audiocpp.daemon.errors import ServerBusy

LONGEST_QUEUE = 256
"""Requests waiting for one entry. More than that is not a queue but an outage, and is said at once."""

_RETRY_AFTER_S = 1.0


class _Place:
    """Somebody's claim to a slot. `granted` is set when the slot is theirs, and from then on it must be given back."""

    __slots__ = ("granted",)

    def __init__(self) -> None:
        self.granted = trio.Event()


class SlotQueue:
    """The slots of one entry and those who wait for them. `name` is used in messages."""

    def __init__(self, name: str, slots: int) -> None:
        self.name = name
        self.slots = slots
        self._held: dict[_Place, float] = {}
        self._waiting: deque[_Place] = deque()

    @property
    def active(self) -> int:
        return len(self._held)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def longest_held_s(self) -> float:
        """How long the oldest holder has had its slot; 0 when nobody holds one."""
        now = trio.current_time()
        return max((now - since for since in self._held.values()), default=0.0)

    @asynccontextmanager
    async def slot(self, timeout_ms: int) -> AsyncIterator[None]:
        """Holds a slot. Waits at most `timeout_ms` for it (0: without bound), then raises `ServerBusy`.

        When every holder has already been running for longer than the timeout, waiting is pointless and the refusal
        comes at once.
        """
        place = _Place()
        if self.active < self.slots and not self._waiting:
            self._grant(place)
        else:
            await self._wait(place, timeout_ms)
        try:
            yield
        finally:
            self._give_back(place)

    async def _wait(self, place: _Place, timeout_ms: int) -> None:
        self._refuse_hopeless(timeout_ms)
        self._waiting.append(place)
        try:
            with trio.move_on_after(timeout_ms / 1e3 if timeout_ms > 0 else float("inf")):
                await place.granted.wait()
        except trio.Cancelled:
            self._leave(place)
            raise
        if place.granted.is_set():
            return
        self._leave(place)
        raise ServerBusy(
            f"model {self.name!r} is busy: {self.active} of {self.slots} slots taken, {self.queued} requests waiting; "
            f"none came free within {timeout_ms} ms",
            retry_after_s=_RETRY_AFTER_S,
        )

    def _leave(self, place: _Place) -> None:
        if place.granted.is_set():
            self._give_back(place)
        else:
            self._waiting.remove(place)

    def _refuse_hopeless(self, timeout_ms: int) -> None:
        if self.queued >= LONGEST_QUEUE:
            raise ServerBusy(
                f"model {self.name!r} is busy: {self.queued} requests are waiting, the longest queue allowed",
                retry_after_s=_RETRY_AFTER_S,
            )
        now = trio.current_time()
        youngest_s = min((now - started for started in self._held.values()), default=0.0)
        if self.active >= self.slots and is_overdue(youngest_s * 1e3, timeout_ms):
            raise ServerBusy(
                f"model {self.name!r} is busy: all {self.slots} slots have been taken for more than {timeout_ms} ms",
                retry_after_s=_RETRY_AFTER_S,
            )

    def _grant(self, place: _Place) -> None:
        self._held[place] = trio.current_time()
        place.granted.set()

    def _give_back(self, place: _Place) -> None:
        del self._held[place]
        while self._waiting and self.active < self.slots:
            self._grant(self._waiting.popleft())
