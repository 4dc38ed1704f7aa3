"""Which kind of media file some bytes begin, by signature, for the kinds that libsndfile does not read."""

from collections.abc import Sequence
from dataclasses import dataclass

HEAD_BYTES = 4096
"""Enough of a file to recognise it, with the chunks that stand before the format of a WAV."""

_WAV_CODECS = frozenset({0x01, 0x02, 0x03, 0x06, 0x07, 0x11, 0x31, 0x38, 0x40, 0x55})
"""Format tags of WAV (RFC 2361) that libsndfile decodes: PCM, float, A-law and mu-law, ADPCM, GSM, MP3."""


@dataclass(frozen=True, slots=True)
class Container:
    """A kind of file.

    Attributes:
        demuxer: FFmpeg's name of what reads it; empty where nothing here does.
        has_header: whether a file without any audio can be a valid one.
    """

    name: str
    demuxer: str = ""
    has_header: bool = True


_SIGNATURES: Sequence[tuple[int, bytes, Container]] = (
    (0, b"\x1a\x45\xdf\xa3", Container("WebM or Matroska", "matroska")),
    (4, b"ftyp", Container("MP4 or M4A", "mov")),
    (0, b"\xff\xf1", Container("AAC (ADTS)", "aac", has_header=False)),
    (0, b"\xff\xf9", Container("AAC (ADTS)", "aac", has_header=False)),
    (0, b"\x30\x26\xb2\x75", Container("WMA (ASF)")),
    (0, b"#!AMR", Container("AMR")),
)
"""Offset and first bytes."""


def recognise(head: bytes) -> Container | None:
    """The kind of a file that libsndfile does not read, from its first `HEAD_BYTES`; None for any other."""
    for offset, signature, container in _SIGNATURES:
        if head[offset : offset + len(signature)] == signature:
            return container
    tag = _wav_format_tag(head)
    return None if tag is None or tag in _WAV_CODECS else Container(f"WAV with the codec 0x{tag:04X}")


def _wav_format_tag(head: bytes) -> int | None:
    """The format tag of a WAV file, of its sub-format where the header is extensible; None for other files."""
    at = head.find(b"fmt ", 12) + 8
    if head[:4] not in (b"RIFF", b"RF64") or head[8:12] != b"WAVE" or not 12 < at <= len(head) - 2:
        return None
    tag = int.from_bytes(head[at : at + 2], "little")
    return int.from_bytes(head[at + 24 : at + 26], "little") if tag == 0xFFFE else tag
