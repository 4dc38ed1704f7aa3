"""`Transfer-Encoding: chunked`, undone for an upload that is answered while it comes (RFC 9112, section 7.1).

Bytes in, pieces of chunks out; no I/O. Extensions and trailers are read over.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

MAX_LINE_BYTES = 8192
"""Longest line before a chunk, and longest trailers altogether."""

_SIZE = re.compile(rb"[0-9A-Fa-f]+")
_CRLF = b"\r\n"


class FramingError(Exception):
    """What came is no chunked body. The message is for the client."""


class ChunkPiece(NamedTuple):
    """Data of a chunk. `last` ends the chunk; `framing_bytes` came before it and are no data."""

    data: bytes
    last: bool
    framing_bytes: int


class ChunkedBody:
    """One body. `complete` once its end has come; what follows is left alone."""

    def __init__(self, *, max_chunk_bytes: int) -> None:
        self.complete = False
        self._max_chunk_bytes = max_chunk_bytes
        self._buffer = bytearray()
        self._remaining = 0
        self._framing_bytes = 0
        self._trailer_bytes = 0
        self._read: Callable[[], ChunkPiece | None] = self._read_size
        self._waits = False

    def feed(self, data: bytes) -> Iterator[ChunkPiece]:
        """Yields what `data` brings. Raises `FramingError`, after the pieces before the fault."""
        self._buffer += data
        self._waits = False
        while not self.complete and not self._waits:
            piece = self._read()
            if piece is not None:
                yield piece

    def close(self) -> None:
        """Nothing follows. Raises `FramingError` unless the body is complete."""
        if not self.complete:
            raise FramingError("live request body closed before the terminating chunk")

    # Readers: each takes one element off the buffer and says who reads the next.

    def _read_size(self) -> None:
        line = self._line("chunk header")
        if line is None:
            return
        size = line.partition(b";")[0].strip(b" \t")
        if not _SIZE.fullmatch(size):
            raise FramingError("invalid chunk size")
        self._remaining = int(size, 16)
        if self._remaining > self._max_chunk_bytes:
            raise FramingError("chunk size exceeds the maximum")
        self._read = self._read_data if self._remaining else self._read_trailer

    def _read_data(self) -> ChunkPiece | None:
        data = bytes(self._buffer[: self._remaining])
        if not data:
            self._waits = True
            return None
        self._take(len(data), framing=False)
        self._remaining -= len(data)
        if not self._remaining:
            self._read = self._read_end
        framing_bytes, self._framing_bytes = self._framing_bytes, 0
        return ChunkPiece(data, not self._remaining, framing_bytes)

    def _read_end(self) -> None:
        """The line end behind a chunk."""
        end = bytes(self._buffer[:2])
        if end != _CRLF[: len(end)]:
            raise FramingError("chunk is not terminated by CRLF")
        if len(end) < len(_CRLF):
            self._waits = True
            return
        self._take(len(end))
        self._read = self._read_size

    def _read_trailer(self) -> None:
        before = self._framing_bytes
        line = self._line("trailer")
        if line is None:
            return
        self._trailer_bytes += self._framing_bytes - before
        if self._trailer_bytes > MAX_LINE_BYTES:
            raise FramingError(f"trailers exceed {MAX_LINE_BYTES} bytes")
        self.complete = not line

    def _line(self, what: str) -> bytes | None:
        """The next line without its end; None when it has not come."""
        at = self._buffer.find(_CRLF, 0, MAX_LINE_BYTES)
        if at < 0:
            if len(self._buffer) >= MAX_LINE_BYTES:
                raise FramingError(f"{what} exceeds {MAX_LINE_BYTES} bytes")
            self._waits = True
            return None
        line = bytes(self._buffer[:at])
        self._take(at + len(_CRLF))
        return line

    def _take(self, count: int, *, framing: bool = True) -> None:
        del self._buffer[:count]
        self._framing_bytes += count if framing else 0
