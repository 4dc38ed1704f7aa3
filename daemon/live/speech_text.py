"""Text that comes in pieces, handed on in sentences: what a voice needs to speak well, as soon as it is there."""

from audiocpp.engines.text.sentences import cut_to_length, split_sentences

LONGEST_WAIT_CHARS = 1000
"""So much without the end of a sentence is cut at a word: nobody waits for an end that may never come."""


class SpeechText:
    """One stream of text. `language` is a BCP-47 tag."""

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._rest = ""

    def push(self, text: str) -> str:
        """The sentences that are complete now, if any. A sentence is complete when the next one begins: before that
        its full stop may be that of an abbreviation or of a number.
        """
        self._rest += text
        *complete, last = [*split_sentences(self._rest, self._language)] or [""]
        if complete:
            self._rest = self._rest[self._rest.rindex(last) :]
        if len(self._rest) > LONGEST_WAIT_CHARS:
            *cut, last = cut_to_length(self._rest, LONGEST_WAIT_CHARS)
            complete += cut
            self._rest = self._rest[self._rest.rindex(last) :]
        return " ".join(complete)

    def flush(self) -> str:
        """What is left, whether it is a sentence or not."""
        rest, self._rest = self._rest.strip(), ""
        return rest
