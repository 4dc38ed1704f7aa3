"""Finds sentences, and cuts what is too long for a model at a clause, else a word, else a character.

Cutting loses nothing: the pieces joined are the text, but for white space. Knows no markup and no figures.
"""

import re
import unicodedata
from collections.abc import Iterator

from audiocpp.engines.languages import primary_language

_CLOSERS = "\"'”’»)\\]"
# Only the first mark of a row is tried: a row that ends nothing would be scanned once per mark.
_END = re.compile(rf"(?<![.!?…])[.!?…]+[{_CLOSERS}]*(?=\s|$)|[。！？]+[{_CLOSERS}」』]*")
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]+$")
_CLAUSE_END = re.compile(rf"[,;:—–][{_CLOSERS}]*(?=\s)|—|[，、；]")
_SPACE = re.compile(r"\s*")
_LONGEST_WORD_CHARS = 64
_MOST_COMBINING = 30
"""Combining marks of one letter, as in Unicode's Stream-Safe Text Format (UAX #15); writing needs far fewer."""

_BEFORE_A_NAME = {
    "en": frozenset((
        "capt", "col", "dr", "fr", "gen", "gov", "hon", "lt", "maj", "messrs", "mr", "mrs", "ms", "mt", "mx",
        "prof", "rep", "rev", "sen", "sgt", "st",
    )),
}  # fmt: skip
"""Abbreviations whose full stop never ends a sentence: what they stand before belongs to them. By language."""

_BEFORE_MORE = {
    "en": frozenset((
        "approx", "apr", "aug", "ave", "blvd", "cf", "dec", "dept", "e.g", "eg", "est", "etc", "feb", "i.e", "ie",
        "inc", "jan", "jr", "jul", "jun", "ltd", "mar", "nov", "oct", "p.m", "a.m", "rd", "sep", "sept", "sr",
        "viz", "vs",
    )),
}  # fmt: skip
"""Abbreviations whose full stop ends a sentence only when a capital letter follows. By language."""

_BEFORE_A_FIGURE = {
    "en": frozenset((
        "art", "ch", "eq", "fig", "no", "nos", "p", "pp", "sec", "vol",
    )),
}  # fmt: skip
"""Abbreviations only when a figure follows; otherwise words or the end of a sentence (`No. I will not.`)."""

_NEVER_LAST = frozenset({"e.g", "eg", "i.e", "ie", "vs", "cf", "viz"})


def split_sentences(passage: str, language: str = "en") -> Iterator[str]:
    """Yields the sentences of `passage`, each with its closing punctuation, without white space around.

    The full stops of decimals, addresses, initials, ellipses in mid-sentence and the usual abbreviations of `language`
    (a BCP-47 tag) do not end a sentence.
    """
    start = 0
    primary = primary_language(language)
    for end in _END.finditer(passage):
        if _ends_sentence(passage, start, end, primary):
            yield passage[start : end.end()].strip()
            start = end.end()
    if rest := passage[start:].strip():
        yield rest


def _ends_sentence(passage: str, start: int, end: re.Match[str], language: str) -> bool:
    following = passage[end.end() : end.end() + 2].lstrip()
    mark = end.group()
    if following[:1].islower() and (mark[-1] in _CLOSERS or mark.startswith(("..", "…"))):
        return False  # "Why?" he asked. Well... perhaps.
    if mark != ".":
        return True
    word = _LAST_WORD.search(passage, max(start, end.start() - _LONGEST_WORD_CHARS), end.start())
    return word is None or _full_stop_ends(
        word.group(), following[:1], language, first=_SPACE.fullmatch(passage, start, word.start()) is not None
    )


def _full_stop_ends(word: str, following: str, language: str, *, first: bool) -> bool:
    lower = word.lower()
    if lower in _BEFORE_A_NAME.get(language, ()):
        return not following
    if lower in _BEFORE_A_FIGURE.get(language, ()):
        return not following.isdigit()
    if lower in _BEFORE_MORE.get(language, ()):
        return lower not in _NEVER_LAST and not (following.islower() or following.isdigit())
    if re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", word):  # U.S. and the like: a name more often than an end
        return not following
    if len(word) == 1 and word.isupper() and word != "I":
        return not following  # an initial
    return not (first and word.isdigit())  # the number of a list item


def cut_to_length(text: str, max_chars: int) -> Iterator[str]:
    """Yields pieces of `text` of at most `max_chars` characters, cut at a clause if one ends in the second half.

    Failing that a piece ends at a word, and a word longer than `max_chars` is cut, though not before a combining mark.
    `max_chars` is at least 1.
    """
    text = text.strip()
    start = 0
    while len(text) - start > max_chars:
        end = start + cut_position(text[start : start + max_chars + 1], max_chars)
        yield text[start:end].rstrip()
        start = end
        while text[start].isspace():  # the text ends with something else
            start += 1
    if start < len(text):
        yield text[start:]


def cut_position(text: str, max_chars: int) -> int:
    """Where `text`, which is longer than `max_chars`, is best cut: from 1 to `max_chars`."""
    window = text[: max_chars + 1]
    clauses = [match.end() for match in _CLAUSE_END.finditer(window) if match.end() <= max_chars]
    if clauses and clauses[-1] > max_chars // 2:
        return clauses[-1]
    space = max(window.rfind(" "), window.rfind("\n"), window.rfind("\t"))
    if space > 0:
        return space
    cut = max_chars
    while cut > max(max_chars - _MOST_COMBINING, 1) and unicodedata.combining(text[cut]):
        cut -= 1
    return cut
