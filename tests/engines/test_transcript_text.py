"""How pieces of text are joined and when they may be committed."""

import pytest

from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.languages import check_language
from audiocpp.engines.transcript_text import TranscriptText, agreed_tokens, is_plausible


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([" It was", " the best"], "It was the best"),
        (["In short,,", " the period"], "In short, the period"),
        (["In short,", ", the period"], "In short, the period"),
        (["In short,", ","], "In short,"),
        (["a  b ", " c"], "a b c"),
        (["Wait...", " what?!"], "Wait... what?!"),
        (["", " So"], "So"),
    ],
)
def test_pieces_are_joined_without_doubled_marks_and_spaces(pieces, text) -> None:
    transcript = TranscriptText()
    assert "".join(transcript.push(piece) for piece in pieces) == text


def test_a_preview_changes_nothing() -> None:
    transcript = TranscriptText()
    transcript.push("One,")
    assert transcript.preview(", two") == transcript.preview(", two") == transcript.push(", two") == " two"


def test_a_new_utterance_is_divided_by_one_space() -> None:
    transcript = TranscriptText()
    assert transcript.new_utterance("One.") == "One."
    transcript.push("One.")
    assert transcript.new_utterance("Two.") == " Two."
    assert transcript.new_utterance(" Two.") == " Two."


@pytest.mark.parametrize(
    ("older", "newer", "agreed"),
    [
        ("", "", 0),
        ("A b", "A b", 0),  # the last word may still get an ending
        ("A b C", "A b C", 2),
        ("A b C d E", "A b C d E", 4),
        ("A b C x E", "A b C d E", 2),  # they differ inside the second word
        ("A b . C", "A b , C", 0),  # and here at a mark, which belongs to the first
        ("A B", "C B", 0),
        ("A", "A B", 0),  # the older one may only have been cut off here
        ("A B C", "A B", 1),
    ],
)
def test_whole_words_on_which_two_hypotheses_agree(older: str, newer: str, agreed: int) -> None:
    """A token that starts a word is a capital."""
    letters = [[ord(letter) for letter in text.split()] for text in (older, newer)]
    assert agreed_tokens(*letters, starts_word=lambda token: chr(token).isupper()) == agreed


@pytest.mark.parametrize(
    ("text", "duration_s", "plausible"),
    [("Yes.", 0.3, True), ("...", 2.0, False), ("", 2.0, False), ("one " * 20, 1.0, False), ("one " * 20, 6.0, True)],
)
def test_text_that_cannot_have_been_said_is_not_plausible(text: str, duration_s: float, plausible: bool) -> None:
    assert is_plausible(text, duration_s) is plausible


@pytest.mark.parametrize("tag", ["", "en", "EN", "en-US", "en_GB", " en "])
def test_language_tags_that_name_an_accepted_language(tag: str) -> None:
    assert check_language(tag, ("en",)) == "en"


@pytest.mark.parametrize("tag", ["de", "eng", "english", "e"])
def test_other_languages_are_refused_with_what_is_accepted(tag: str) -> None:
    with pytest.raises(InvalidInput, match="accepted: en, fr") as refusal:
        check_language(tag, ("en", "fr"))
    assert refusal.value.param == "language"
