"""Hama's graphemes to phonemes: an encoder of letters and a decoder that is run a phoneme at a time.

Model: https://github.com/hamanlp/hama. Encoder: `input_ids` int64 (words, letters), `input_lengths` int64 (words,) ->
what the decoder takes beside `decoder_input_ids` int64 (words, 1). Words of one batch come out as they would alone.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import LoadError
from audiocpp.engines.graph import Array, Graph

_PADDING, _UNKNOWN_LETTER = 0, 1
_START, _END = 1, 2
_NOT_SOUNDS: Final = frozenset(range(5))
"""Padding, start, end, unknown and the space."""

_MOST_LETTERS: Final = 20
"""Longer words are read in pieces: of such the model takes most for another language."""

_MOST_PHONEMES: Final = 32
_WORDS_AT_ONCE: Final = 32
"""Measured: a word costs 0.3 ms so, alone 1 ms."""

_ENCODED = ("encoder_outputs", "projected_keys", "hidden", "encoder_mask", "prev_attn")
_DECODED = ("next_token_ids", "hidden_out", "prev_attn_out")

Phonemes = tuple[int, ...]


class _Vocabulary(msgspec.Struct, frozen=True):
    encoder: list[str]
    decoder: list[str]


class HamaG2p:
    """Owns both graphs. Phonemes are numbers, from 0 to `phoneme_count - 1`."""

    def __init__(self, encoder: Graph, decoder: Graph, vocabulary: Path) -> None:
        """Raises `LoadError` when `vocabulary` is not one."""
        self._encoder = encoder
        self._decoder = decoder
        try:
            symbols = msgspec.json.decode(vocabulary.read_bytes(), type=_Vocabulary)
        except (OSError, msgspec.DecodeError) as error:
            raise LoadError(f"{vocabulary.name} is not a vocabulary of Hama: {error}") from error
        self._letters = {symbol: number for number, symbol in enumerate(symbols.encoder)}
        self.phoneme_count = len(symbols.decoder)

    def read(self, words: Iterable[str], control: RunControl) -> dict[str, Phonemes]:
        """The phonemes of each word. A word of marks only has none, and neither has one that the model cannot read."""
        pieces = {word: _pieces(word) for word in words}
        distinct = sorted({piece for parts in pieces.values() for piece in parts}, key=len)
        read: dict[str, Phonemes] = {}
        for start in range(0, len(distinct), _WORDS_AT_ONCE):
            batch = distinct[start : start + _WORDS_AT_ONCE]
            read |= zip(batch, self._decode(batch, control), strict=True)
        return {word: tuple(phoneme for part in parts for phoneme in read[part]) for word, parts in pieces.items()}

    def close(self) -> None:
        self._encoder.close()
        self._decoder.close()

    def _decode(self, words: Sequence[str], control: RunControl) -> list[Phonemes]:
        state = self._encode(words, control)
        tokens = np.full((len(words), 1), _START, np.int64)
        columns: list[Array] = []
        going_on = np.ones(len(words), np.bool_)
        while going_on.any() and len(columns) < _MOST_PHONEMES:
            control.check()
            outputs = self._decoder.run({"decoder_input_ids": tokens, **state}, control, outputs=_DECODED)
            following, state["hidden"], state["prev_attn"] = outputs
            going_on &= following != _END
            columns.append(np.where(going_on, following, _END))
            tokens = following[:, np.newaxis]
        rows = np.transpose(columns).tolist()
        return [tuple(token for token in row if token not in _NOT_SOUNDS) for row in rows]

    def _encode(self, words: Sequence[str], control: RunControl) -> dict[str, Array]:
        longest = max(map(len, words))
        letters = np.full((len(words), longest), _PADDING, np.int64)
        for row, word in zip(letters, words, strict=True):
            row[: len(word)] = [self._letters.get(letter, _UNKNOWN_LETTER) for letter in word]
        lengths = np.array([len(word) for word in words], np.int64)
        encoded = self._encoder.run({"input_ids": letters, "input_lengths": lengths}, control, outputs=_ENCODED)
        positions = np.arange(longest, dtype=np.float32)[np.newaxis]
        return dict(zip(_ENCODED, encoded, strict=True)) | {"positions": positions}


def _pieces(word: str) -> list[str]:
    """What the encoder reads of a word: lower case without accents, apart at hyphens and other marks."""
    folded = unicodedata.normalize("NFKD", word.lower().replace("’", "'"))
    plain = "".join(character for character in folded if not unicodedata.combining(character))
    parts = re.findall(r"[^\W_']+(?:'[^\W_']+)*", plain)
    return [part[at : at + _MOST_LETTERS] for part in parts for at in range(0, len(part), _MOST_LETTERS)]
