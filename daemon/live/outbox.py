"""What waits to be sent to a live client. It outlives the connection that it is sent over."""

from collections import deque

import trio

from audiocpp.daemon.live.messages import Close, Send

FULL_EVENTS = 256
"""A client that is so far behind is not read from until it has caught up."""

MOST_EVENTS = 4096
"""A client that is so far behind is given up: the model goes on by itself, and its answers cannot wait for ever."""


class Outbox:
    """One task puts; one at a time takes, which is done only when it has sent what it took.

    Attributes:
        told: the deltas that were sent, joined.
    """

    def __init__(self) -> None:
        self.told = ""
        self._events: deque[Send | Close] = deque()
        self._last: Send | None = None
        self._changed = trio.Event()

    @property
    def overflows(self) -> bool:
        return len(self._events) > MOST_EVENTS

    def put(self, event: Send | Close) -> None:
        self._events.append(event)
        self._notify()

    def give_up(self, *last: Send | Close) -> None:
        """Drops what waits, but for the event that may be under way, and puts `last` in its place."""
        while len(self._events) > 1:
            self._events.pop()
        self._events.extend(last)
        self._notify()

    async def next(self) -> Send | Close:
        """The oldest event that was not sent. It stays the oldest until `sent`; a close stays for ever."""
        while not self._events:
            await self._changed.wait()
        return self._events[0]

    def sent(self) -> None:
        """The oldest event has gone out, as far as anybody here can tell."""
        event = self._events.popleft()
        assert isinstance(event, Send)
        self._last = event
        if event.event["type"] == "transcript.text.delta":
            self.told += event.event["delta"]
        self._notify()

    def repeat_end(self) -> None:
        """The connection broke while the end was on its way: the event before the close goes out once more."""
        if self._last is not None and self._events and isinstance(self._events[0], Close):
            self._events.appendleft(self._last)

    async def room(self) -> None:
        """Waits until the client has taken most of what was sent to it."""
        while len(self._events) >= FULL_EVENTS:
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
