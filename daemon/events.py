"""What happens in the daemon, for those who watch it: a short memory and a feed. The journal is `logs`."""

import time
from collections import deque

import msgspec
import trio

Detail = str | int | float | bool | None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. `seq` counts from 1 without gaps, `time` is Unix time in seconds."""

    seq: int
    time: float
    kind: str
    model: str = ""
    details: dict[str, Detail] = {}


class EventLog:
    """The last `capacity` events. Used from the event loop's thread only."""

    def __init__(self, capacity: int = 1024) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._last_seq = 0
        self._grown = trio.Event()

    @property
    def last_seq(self) -> int:
        """Of the newest event; 0 before the first."""
        return self._last_seq

    def publish(self, kind: str, *, model: str = "", **details: Detail) -> Event:
        """Records an event and wakes all who wait; never waits for them."""
        self._last_seq += 1
        event = Event(seq=self._last_seq, time=time.time(), kind=kind, model=model, details=details)
        self._events.append(event)
        self._grown.set()
        self._grown = trio.Event()
        return event

    def since(self, seq: int) -> list[Event]:
        """The remembered events after `seq`, oldest first."""
        return [event for event in self._events if event.seq > seq]

    async def wait_since(self, seq: int) -> list[Event]:
        """As `since`, but waits until there is at least one. A gap in `seq` tells a slow follower what it missed."""
        while not (events := self.since(seq)):
            await self._grown.wait()
        return events
