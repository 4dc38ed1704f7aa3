"""WAV files made byte by byte, the way odd writers make them."""

import struct
from collections.abc import Sequence

Chunk = tuple[bytes, bytes]
"""Id and content."""

PCM16_MONO_16K: Chunk = (b"fmt ", struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16))


def riff(chunks: Sequence[Chunk]) -> bytes:
    body = b"".join(name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def chunks_of(wav: bytes) -> list[Chunk]:
    """The chunks of a whole WAV file in their order."""
    found, at = [], 12
    while at < len(wav):
        size = int.from_bytes(wav[at + 4 : at + 8], "little")
        found.append((wav[at : at + 4], wav[at + 8 : at + 8 + size]))
        at += 8 + size + size % 2
    return found


def of_unknown_length(wav: bytes, *, size: int = 0xFFFFFFFF) -> bytes:
    """A file of 44 bytes of header and PCM whose writer did not know its length."""
    return wav[:4] + struct.pack("<I", size) + wav[8:40] + struct.pack("<I", size) + wav[44:]
