"""From a portion of a text to pieces that a model can speak, one by one.

A piece is found only when it is asked for: the first of a long portion costs as little as the only one of a short one.
"""

import re
import unicodedata
from collections.abc import Iterator

from audiocpp.engines.languages import primary_language
from audiocpp.engines.text.english import normalise_english
from audiocpp.engines.text.english_vocabulary import SIGNS
from audiocpp.engines.text.markup import Pause, read_passages
from audiocpp.engines.text.sentences import cut_to_length, split_sentences

_LONGEST_SENTENCE_CHARS = 2000
"""Where a sentence is cut before its figures are read, which bounds the cost of a text without punctuation."""

_NEVER_SPOKEN = frozenset({"So", "Sk", "Cs", "Co", "Cn", "Me", "Cc", "Cf"})
"""Unicode categories: pictographs, modifiers, unassigned, enclosing and control characters. Joiners go with them."""


def speech_pieces(portion: str, *, language: str, max_chars: int) -> Iterator[str | Pause]:
    """Yields what is to be spoken of a portion (see `markup.text_portions`), at most `max_chars` characters a piece,
    and the pauses it asks for.

    `language` is a BCP-47 tag. Figures and signs of English become words; of other languages they are left to the
    phonemizer. Sentences without a letter or a digit are left out, so a text of punctuation or emoji yields no piece.
    """
    for passage in read_passages(portion):
        if isinstance(passage, Pause):
            yield passage
            continue
        for sentence in split_sentences(passage, language):
            if _may_be_spoken(sentence):
                yield from _pieces(sentence, language, max_chars)


def _may_be_spoken(sentence: str) -> bool:
    """False where no reading of figures and signs can give a word: a text may be nothing but such sentences."""
    return any(character.isalnum() or character in SIGNS for character in sentence)


def _pieces(sentence: str, language: str, max_chars: int) -> Iterator[str]:
    for stretch in cut_to_length(sentence, _LONGEST_SENTENCE_CHARS):
        for piece in cut_to_length(normalise(stretch, language), max_chars):
            if any(map(str.isalnum, piece)):
                yield piece


def normalise(sentence: str, language: str) -> str:
    """`sentence` in words, composed to NFC, without pictographs, on one line."""
    composed = unicodedata.normalize("NFC", sentence)
    if primary_language(language) == "en":
        composed = normalise_english(composed, language)
    spoken = "".join(" " if unicodedata.category(character) in _NEVER_SPOKEN else character for character in composed)
    return re.sub(r"\s+(?=[,.;:!?])", "", " ".join(spoken.split()))
