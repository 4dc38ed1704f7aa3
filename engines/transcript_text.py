"""The text of a transcript as it grows: joined without doubled marks, committed where hypotheses agree."""

import re
from collections.abc import Callable, Sequence
from typing import Final

_MAX_WORDS_PER_S: Final = 8.0
"""Faster than any speech: a model that gives more has invented it."""


class TranscriptText:
    """Joins pieces of text into one. What `push` returned, joined, is the text."""

    def __init__(self) -> None:
        self._last = ""

    def push(self, piece: str) -> str:
        """Takes the next piece and returns what it adds."""
        added = self.preview(piece)
        if added:
            self._last = added[-1]
        return added

    def preview(self, piece: str) -> str:
        """What `push` would return."""
        text = re.sub(r"\s+", " ", piece)
        text = re.sub(r"([,;:])(?:\s*[,;:])+", r"\1", text)
        if not self._last or self._last.isspace():
            text = text.lstrip()
        if self._last in (",", ";", ":"):
            text = re.sub(r"^[\s,;:]+(?=[,;:])|^[,;:]+", "", text)
        return text

    def new_utterance(self, piece: str) -> str:
        """`piece` with the space that divides it from the text so far."""
        return piece if not self._last or piece[:1].isspace() else f" {piece}"


def agreed_tokens(older: Sequence[int], newer: Sequence[int], starts_word: Callable[[int], bool]) -> int:
    """How many tokens of two successive hypotheses may be committed: the whole words at which both agree.

    LocalAgreement-2 (Macháček, Dabre, Bojar 2023). A word counts once both hypotheses have begun another after it, so
    that neither its ending nor its punctuation is still open.
    """
    common = 0
    for old, new in zip(older, newer, strict=False):
        if old != new:
            break
        common += 1
    for count in range(min(common, len(older) - 1, len(newer) - 1), 0, -1):
        if starts_word(older[count]) and starts_word(newer[count]):
            return count
    return 0


def is_plausible(text: str, duration_s: float) -> bool:
    """Whether `text` can have been said in `duration_s`: it has words, and not too many."""
    words = len(re.findall(r"\w+", text))
    return 0 < words <= 2 + _MAX_WORDS_PER_S * duration_s
