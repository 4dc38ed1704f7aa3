"""Moonshine's vocabulary file: token ids to text."""

import re
from pathlib import Path
from typing import Final

from audiocpp.engines.errors import LoadError
from audiocpp.engines.utterances import Tokens

_WORD_START: Final = "\N{LOWER ONE EIGHTH BLOCK}".encode()
_BYTE: Final = re.compile(rb"<0x([0-9A-F]{2})>")
_CONTROL: Final = re.compile(rb"<unk>|</?s>|<<ST_\d+>>")


class MoonshineVocabulary:
    """A file of one entry a token: its length in one byte, or in two where that is 128 or more, then its bytes."""

    def __init__(self, path: Path) -> None:
        """Raises `LoadError` when the file is missing or damaged."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise LoadError(f"{path}: cannot be read: {error.strerror}") from error
        try:
            pieces = _entries(data)
        except IndexError as error:
            raise LoadError(f"{path}: the vocabulary ends within an entry") from error
        self._starts_word = [piece.startswith(_WORD_START) for piece in pieces]
        self._pieces = [_spoken(piece) for piece in pieces]

    def __len__(self) -> int:
        return len(self._pieces)

    def text(self, tokens: Tokens) -> str:
        """The text of `tokens`, with the space before a word. Bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self._pieces[token] for token in tokens).decode(errors="replace")

    def starts_word(self, token: int) -> bool:
        return self._starts_word[token]


def _entries(data: bytes) -> list[bytes]:
    entries, at = [], 0
    while at < len(data):
        length = data[at]
        at += 1
        if length >= 128:
            length += 128 * (data[at] - 1)
            at += 1
        if at + length > len(data):
            raise IndexError
        entries.append(data[at : at + length])
        at += length
    return entries


def _spoken(piece: bytes) -> bytes:
    """What a token adds to the text: nothing for a control token, one byte for `<0xNN>`."""
    if _CONTROL.fullmatch(piece):
        return b""
    byte = _BYTE.fullmatch(piece)
    if byte:
        return bytes([int(byte[1], 16)])
    return piece.replace(_WORD_START, b" ")
