"""Where sentences end, and what happens to those that are too long."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audiocpp.engines.text.sentences import cut_to_length, split_sentences


def without_space(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    "sentences",
    [
        ["One.", "Two!", "Three?", "Four"],
        ["It is 3.14 or 1,000.50 today.", "Yes."],
        ["See example.com/a.b and www.x.org now.", "Then go."],
        ["Dr. Smith met Mrs. Jones and Prof. Li.", "They talked."],
        ["J. R. R. Tolkien wrote it.", "Good."],
        ["The U.S. economy grew.", "It did."],
        ["Fruit, e.g. apples, i.e. food.", "Good."],
        ["We met at 5 p.m. on Monday.", "Then we left."],
        ["It was 5 p.m.", "Then we left."],
        ["Apples, pears, etc. are fruit.", "So are plums, etc.", "Yes."],
        ["See No. 5 and Fig. 3.", "No.", "I will not."],
        ["Well... perhaps.", "Wait...", "Now."],
        ['"Why?" he asked.', 'He said "No."', "Then he left."],
        ["Really?!", "Yes."],
        ["1. First.", "So it began."],
        ["all lower case.", "still two."],
        ["So did I.", "Then she came."],
    ],
)
def test_sentences_end_where_a_reader_would_end_them(sentences: list[str]) -> None:
    assert list(split_sentences(" ".join(sentences))) == sentences


def test_full_width_marks_end_sentences_without_a_space() -> None:
    assert list(split_sentences("你好。再见！", "zh")) == ["你好。", "再见！"]


def test_abbreviations_belong_to_a_language() -> None:
    assert list(split_sentences("Dr. Who", "en-GB")) == ["Dr. Who"]
    assert list(split_sentences("Art. Dann", "de")) == ["Art.", "Dann"]


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("abcXYZ019 .!?…,;:\"')(—-\n\t。étи́")))
def test_splitting_keeps_every_character(text: str) -> None:
    assert without_space("".join(split_sentences(text))) == without_space(text)


@settings(deadline=None)
@given(st.text(max_size=400), st.integers(min_value=1, max_value=50))
def test_cutting_keeps_every_character_and_the_limit(text: str, max_chars: int) -> None:
    pieces = list(cut_to_length(text, max_chars))
    assert without_space("".join(pieces)) == without_space(text)
    assert all(0 < len(piece) <= max_chars for piece in pieces)


def test_a_short_text_is_not_cut() -> None:
    assert list(cut_to_length("a, b; c", 7)) == ["a, b; c"]


def test_a_clause_is_preferred_to_a_word() -> None:
    assert list(cut_to_length("one two three, four five six", 20)) == ["one two three,", "four five six"]


def test_a_clause_that_ends_too_early_is_not_used() -> None:
    assert list(cut_to_length("one, two three four five six", 20)) == ["one, two three four", "five six"]


def test_text_without_punctuation_is_cut_between_words() -> None:
    words = ["letters"] * 75
    pieces = list(cut_to_length(" ".join(words), 180))
    assert " ".join(pieces).split() == words
    assert len(pieces) == 4


def test_a_word_longer_than_the_limit_is_cut() -> None:
    assert [len(piece) for piece in cut_to_length("x" * 2000, 180)] == [180] * 11 + [20]


def test_a_combining_mark_stays_with_its_letter() -> None:
    assert list(cut_to_length("e\u0301" * 3, 3)) == ["e\u0301"] * 3


@pytest.mark.parametrize("unit", ["\u0301", "a\u0301", ".", "?!x", '."', "—", " "])
def test_hostile_repetition_costs_little(unit: str) -> None:
    text = f"a{unit * (100_000 // len(unit))}z"
    started = time.thread_time()
    assert without_space("".join(split_sentences(text))) == without_space(text)
    assert without_space("".join(cut_to_length(text, 180))) == without_space(text)
    assert time.thread_time() - started < 2


def test_a_letter_keeps_its_marks() -> None:
    assert list(cut_to_length("abe\u0301\u0327f", 4)) == ["ab", "e\u0301\u0327f"]
