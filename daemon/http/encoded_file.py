"""A file that is made piece by piece and sent when it is complete: in memory while it is small, else in the spool."""

import base64
from collections.abc import AsyncIterator

from audiocpp.daemon.spool import Spool, SpooledFile

MEMORY_BYTES = 4 << 20
"""What a file may hold in memory: a minute and a half of speech as WAV."""

WRITE_BYTES = 512 << 10
"""What is gathered for a write to the disk, which takes a thread."""

READ_BYTES = 192 << 10
"""What is read at a time; a multiple of three, so that the base64 of the pieces is that of the file."""


class EncodedFile:
    """Made by one task, which then may read it any number of times. Whoever makes one closes it."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._stored: SpooledFile | None = None
        self._held = bytearray()

    @property
    def size_bytes(self) -> int:
        return len(self._held) + (0 if self._stored is None else self._stored.size_bytes)

    async def append(self, data: bytes) -> None:
        """Raises `BodyTooLarge` or `ServerBusy` when there is no space for it."""
        self._held += data
        if len(self._held) >= (MEMORY_BYTES if self._stored is None else WRITE_BYTES):
            await self._store()

    async def replace(self, at: int, data: bytes) -> None:
        """Puts `data`, no longer than a header, in place of the bytes from `at`."""
        if self._stored is None:
            self._held[at : at + len(data)] = data
        else:
            await self._store()
            await self._stored.replace(at, data)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The content, in pieces of `READ_BYTES`."""
        if self._stored is None:
            for start in range(0, len(self._held), READ_BYTES):
                yield bytes(self._held[start : start + READ_BYTES])
            return
        await self._store()
        for start in range(0, self._stored.size_bytes, READ_BYTES):
            yield await self._stored.read(start, READ_BYTES)

    async def base64_pieces(self) -> AsyncIterator[bytes]:
        """The base64 of the content."""
        async for piece in self.pieces():
            yield base64.b64encode(piece)

    @property
    def base64_bytes(self) -> int:
        """The length of the base64 of the content."""
        return (self.size_bytes + 2) // 3 * 4

    def close(self) -> None:
        """Gives the space back. May be called again."""
        self._held.clear()
        if self._stored is not None:
            self._stored.close()

    async def _store(self) -> None:
        if self._stored is None:
            self._stored = await self._spool.create("the speech")
        if self._held:
            await self._stored.write(bytes(self._held))
            self._held.clear()
