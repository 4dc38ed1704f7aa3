"""The queue between a live client and its run, bounded in bytes."""

from collections import deque

import trio

from audiocpp.daemon.live.messages import Finalize, Finish, Move, Push, Restart

QUEUE_BYTES = 1 << 20
"""Half a minute of 16 kHz PCM16. More would only delay what is noticed of a client that has left."""

OVERHEAD_BYTES = 256
"""What an item takes beside its audio: frames of one byte must not fill the memory."""

Work = Push | Finalize | Finish | Restart | Move


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
        """The next piece of work. Audio that lies behind audio comes with it."""
        while not self._work:
            await self._changed.wait()
        work = self._take()
        if not isinstance(work, Push) or not self._next_is_audio:
            return work
        data = bytearray(work.data)
        while self._next_is_audio:
            following = self._take()
            assert isinstance(following, Push)
            data += following.data
        return Push(bytes(data))

    async def room(self) -> None:
        """Waits until the queue is no longer full. The client's socket is not read meanwhile."""
        while self.full:
            await self._changed.wait()

    @property
    def _next_is_audio(self) -> bool:
        return bool(self._work) and isinstance(self._work[0], Push)

    def _take(self) -> Work:
        work = self._work.popleft()
        self._bytes -= _size(work)
        self._notify()
        return work

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _size(work: Work) -> int:
    return OVERHEAD_BYTES + (len(work.data) if isinstance(work, Push) else 0)
