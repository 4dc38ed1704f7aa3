"""The words of a text as they are written, each with the words that are said for it: `$5` is said "five dollars".

For what leads from speech back to the text that its author knows.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from audiocpp.engines.languages import primary_language
from audiocpp.engines.text.english_vocabulary import LETTERS
from audiocpp.engines.text.sentences import cut_to_length, split_sentences
from audiocpp.engines.text.speech import normalise

_LONGEST_STRETCH_CHARS = 300
"""Longer sentences are cut: comparing what is written with what is said costs the square of the words, and more."""

_MARKS = re.compile(r"[\W_]+")
_ACRONYM = re.compile(r"[A-Z]{2,3}")


@dataclass(frozen=True, slots=True)
class WrittenWord:
    """`text` is the word with the marks that touch it, `spoken` what is said: at least one word of letters."""

    text: str
    spoken: tuple[str, ...]


def written_words(text: str, language: str) -> Iterator[list[WrittenWord]]:
    """Yields the words of each sentence of `text`, or of each part of a long one: what stands between white space and
    can be said, in order. A sentence without a word is left out.

    `language` is a BCP-47 tag. Words that are read together (`5 km`) share what is said.
    """
    for sentence in split_sentences(text, language):
        for stretch in cut_to_length(sentence, _LONGEST_STRETCH_CHARS):
            if words := list(_words(stretch, language)):
                yield words


def _words(stretch: str, language: str) -> Iterator[WrittenWord]:
    written = stretch.split()
    spells = primary_language(language) == "en"
    shouted = stretch.isupper()
    for text, said in zip(written, _said(written, _reading(stretch, language), language), strict=True):
        spoken = [part for word in said for part in (_spelled(word, shouted=shouted) if spells else [word])]
        if spoken:
            yield WrittenWord(text, tuple(spoken))


def _said(written: Sequence[str], spoken: Sequence[str], language: str) -> list[list[str]]:
    """What is said for each written word: the word itself where it is said, else its share of the words between."""
    said: list[list[str]] = [[] for _ in written]
    for tag, first, end, first_said, end_said in _compared(written, spoken):
        if tag == "equal":
            shares = [[word] for word in spoken[first_said:end_said]]
        elif tag == "insert":
            first, shares = max(first - 1, 0), [list(spoken[first_said:end_said])]
        else:
            shares = _shares(written[first:end], spoken[first_said:end_said], language)
        for place, share in enumerate(shares, start=first):
            said[place] += share
    return said


def _shares(written: Sequence[str], spoken: Sequence[str], language: str) -> list[list[str]]:
    """Divides what is said for some words among them by what is said for each alone: of `five kilometers` for `5 km`
    the first word is that of `5` alone, so the second belongs to `km`."""
    alone = [_reading(word, language) for word in written]
    owners = [place for place, words in enumerate(alone) for _ in words]
    shares: list[list[str]] = [[] for _ in written]
    for _, first, end, first_said, end_said in _compared([word for words in alone for word in words], spoken):
        for number, word in enumerate(spoken[first_said:end_said] if owners else ()):
            place = first + number * (end - first) // (end_said - first_said) if end > first else max(first - 1, 0)
            shares[owners[place]].append(word)
    everyone_has_some = all(share for share, words in zip(shares, alone, strict=True) if words)
    return shares if everyone_has_some else alone


def _compared(one: Sequence[str], other: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """difflib's opcodes, marks and case aside."""
    return SequenceMatcher(None, list(map(_letters, one)), list(map(_letters, other)), autojunk=False).get_opcodes()


def _reading(text: str, language: str) -> list[str]:
    """The words that are said for `text`."""
    return [word for word in normalise(text, language).split() if _letters(word)]


def _spelled(word: str, *, shouted: bool) -> Sequence[str]:
    """`word`, or the names of its letters. `shouted`: capitals mean nothing, all of the text is in them."""
    letters = _MARKS.sub("", word)
    if len(letters) == 1 or (_ACRONYM.fullmatch(letters) and not shouted):
        return [LETTERS.get(letter, letter) for letter in letters.lower()]
    return [word]


def _letters(word: str) -> str:
    """What is left of a word without marks and case, for comparing; empty where there is nothing to say."""
    return _MARKS.sub("", word).casefold()
