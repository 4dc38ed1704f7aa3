"""Who may start: per model entry, first come first served over its slots. A slot is a place, not a thread."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from audiocpp.daemon.busy import is_overdue
from audiocpp.daemon.errors import ServerBusy

LONGEST_QUEUE = 256
"""Requests waiting for one entry. More than that is not a queue but an outage, and is said at once."""

_RETRY_AFTER_S = 1.0


class Slot:
    """Somebody's claim to a slot. `granted` is set when the slot is theirs, and from then on it must be given back."""

    __slots__ = ("_give_up", "_queue", "granted", "reserved_at")

    def __init__(self, queue: "SlotQueue") -> None:
        self.granted = trio.Event()
        self._queue = queue
        self._give_up: Callable[[], None] | None = None
        self.reserved_at = 0.0

    @property
    def reserved(self) -> bool:
        return self._give_up is not None

    def reserve(self, give_up: Callable[[], None]) -> None:
        """Nothing uses the slot now, but it is kept for a client that may come back.

        `give_up` is called when it is wanted more elsewhere. It must end in the slot being given back.
        """
        self._give_up = give_up
        self.reserved_at = trio.current_time()
        self._queue.bound_reserved()

    def use(self) -> None:
        """The client is back."""
        self._give_up = None

    def give_up(self) -> None:
        """Takes a reserved slot from whoever it is kept for."""
        give_up, self._give_up = self._give_up, None
        if give_up is not None:
            give_up()


class SlotQueue:
    """The slots of one entry and those who wait for them. `name` is used in messages.

    `on_idle` is called when nobody holds or awaits a slot any more.
    """

    def __init__(self, name: str, slots: int, on_idle: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.slots = slots
        self._on_idle = on_idle
        self._taken: dict[Slot, float] = {}
        self._waiting: deque[Slot] = deque()

    @property
    def idle(self) -> bool:
        """Whether nobody holds or awaits a slot."""
        return not self._taken and not self._waiting

    @property
    def active(self) -> int:
        """Slots in use."""
        return len(self._taken) - self.reserved

    @property
    def reserved(self) -> int:
        """Slots that are kept for clients that may come back. Nobody else can have them meanwhile."""
        return sum(slot.reserved for slot in self._taken)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def longest_held_s(self) -> float:
        """How long the oldest holder has had its slot; 0 when nobody holds one."""
        now = trio.current_time()
        return max((now - since for since in self._taken.values()), default=0.0)

    @asynccontextmanager
    async def slot(self, timeout_ms: int) -> AsyncIterator[Slot]:
        """Holds a slot. Waits at most `timeout_ms` for it (0: without bound), then raises `ServerBusy`.

        When every holder has already been running for longer than the timeout, waiting is pointless and the refusal
        comes at once.
        """
        place = Slot(self)
        if self._is_free and not self._waiting:
            self._grant(place)
        else:
            await self._wait(place, timeout_ms)
        try:
            yield place
        finally:
            self._give_back(place)

    def give_up_reserved(self) -> None:
        """Takes all reserved slots from those they are kept for."""
        for slot in list(self._taken):
            slot.give_up()

    def bound_reserved(self) -> None:
        """Clients that never come back must not keep out the others: at most half of the slots wait for some."""
        reserved = sorted((slot for slot in self._taken if slot.reserved), key=lambda slot: slot.reserved_at)
        for slot in reserved[: max(0, len(reserved) - max(1, self.slots // 2))]:
            slot.give_up()

    @property
    def _is_free(self) -> bool:
        return len(self._taken) < self.slots

    async def _wait(self, place: Slot, timeout_ms: int) -> None:
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
            f"model {self.name!r} is busy: {len(self._taken)} of {self.slots} slots taken, "
            f"{self.queued} requests waiting; none came free within {timeout_ms} ms",
            retry_after_s=_RETRY_AFTER_S,
        )

    def _leave(self, place: Slot) -> None:
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
        # A reserved slot comes free in time, however long it has been taken.
        taken_s = (0.0 if slot.reserved else now - since for slot, since in self._taken.items())
        youngest_s = min(taken_s, default=0.0)
        if not self._is_free and is_overdue(youngest_s * 1e3, timeout_ms):
            raise ServerBusy(
                f"model {self.name!r} is busy: all {self.slots} slots have been taken for more than {timeout_ms} ms",
                retry_after_s=_RETRY_AFTER_S,
            )

    def _grant(self, place: Slot) -> None:
        self._taken[place] = trio.current_time()
        place.granted.set()

    def _give_back(self, place: Slot) -> None:
        del self._taken[place]
        while self._waiting and self._is_free:
            self._grant(self._waiting.popleft())
        if self.idle:
            self._on_idle()
