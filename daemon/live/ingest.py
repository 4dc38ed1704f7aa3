"""The queue between a live client and its run, bounded in bytes."""

from collections import deque

import trio

from audiocpp.daemon.live.messages import Finalize, Finish, Push

QUEUE_BYTES = 1 << 20
"""Half a minute of 16 kHz PCM16. More would only delay what is noticed of a client that has left."""

Work = Push | Finalize | Finish


class IngestQueue:
    """One task puts, another gets. Putting never waits; the one who puts waits for room afterwards."""

    def __init__(self) -> None:
        self._work: deque[Work] = deque()
        self._bytes = 0
        self._changed = trio.Event()

    @property
    def full(self) -> bool:
        return self._bytes >= QUEUE_BYTES

    def put(self, work: Work) -> None:
        self._work.append(work)
        self._bytes += _size(work)
        self._notify()

    async def get(self) -> Work:
        while not self._work:
            await self._changed.wait()
        work = self._work.popleft()
        self._bytes -= _size(work)
        self._notify()
        return work

    async def room(self) -> None:
        """Waits until the queue is no longer full. The client's socket is not read meanwhile."""
        while self.full:
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _size(work: Work) -> int:
    return len(work.data) if isinstance(work, Push) else 0
