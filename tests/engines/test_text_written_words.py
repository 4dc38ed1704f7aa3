"""Words as they are written, and what is said for each."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audiocpp.engines.text.written_words import written_words


def said(text: str, language: str = "en") -> list[tuple[str, str]]:
    return [(word.text, " ".join(word.spoken)) for words in written_words(text, language) for word in words]


def test_words_keep_the_marks_that_touch_them() -> None:
    assert said("“Well,” she said (twice)...") == [
        ("“Well,”", "“Well,”"), ("she", "she"), ("said", "said"), ("(twice)...", "(twice)..."),
    ]  # fmt: skip


def test_sentences_are_apart_and_long_ones_divided() -> None:
    assert [len(words) for words in written_words("One two. Three! Four", "en")] == [2, 1, 1]
    pieces = list(written_words("word " * 500, "en"))
    assert sum(map(len, pieces)) == 500
    assert len(pieces) > 1


@pytest.mark.parametrize("text", ["", " \n", "- ... !!!", "😀 —"])
def test_what_cannot_be_said_is_no_word(text: str) -> None:
    assert said(text) == []


def test_marks_between_words_are_no_words() -> None:
    assert [text for text, _ in said("the other way - in short — yes")] == ["the", "other", "way", "in", "short", "yes"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It cost $12.50 once", ["It", "cost", "twelve dollars and fifty cents", "once"]),
        ("5 km away", ["five", "kilometers", "away"]),
        ("at 3:30 pm, i.e. late", ["at", "three thirty", "pee em", "that is", "late"]),
        ("$3 million more", ["three", "million dollars", "more"]),
        ("on Jan 5, 2024 then", ["on", "January", "fifth,", "twenty twenty-four", "then"]),
        ("5 January came", ["the fifth of", "January", "came"]),
        ("St. Paul and Dr. No", ["Saint", "Paul", "and", "Doctor", "No"]),
        ("No. 5 & co", ["number", "five", "and", "co"]),
        ("5 % of 10", ["five", "percent", "of", "ten"]),
        ("+1 (555) 123-4567", ["plus one,", "five five five,", "one two three, four five six seven"]),
        ("1 2 3", ["one", "two", "three"]),
    ],
)
def test_each_written_word_has_its_own_part_of_what_is_said(text: str, expected: list[str]) -> None:
    pairs = said(text)
    assert [spoken for _, spoken in pairs] == expected
    assert [word for word, _ in pairs] == text.split()


def test_letters_and_short_acronyms_are_spelled() -> None:
    assert said("Plan B for the US, UN and NASA.")[1:] == [
        ("B", "bee"), ("for", "for"), ("the", "the"), ("US,", "you ess"), ("UN", "you en"), ("and", "and"),
        ("NASA.", "NASA."),
    ]  # fmt: skip
    assert said("GIVE US THE BALL") == [(word, word) for word in ["GIVE", "US", "THE", "BALL"]]
    assert said("I saw a dog")[0] == ("I", "i")


def test_other_languages_are_left_as_they_are_written() -> None:
    assert said("Die 3 US Autos", "de") == [(word, word) for word in ["Die", "3", "US", "Autos"]]


@given(st.text(alphabet="ab1 5$%.,-/:'\"&“’\t\nAÉ日½°C", max_size=60))
@settings(deadline=None)
def test_the_words_are_those_of_the_text_in_order_and_none_with_a_letter_is_lost(text: str) -> None:
    words = [word for word, _ in said(text)]
    remaining = iter(text.split())
    assert all(word in remaining for word in words)
    lost = set(text.split()) - set(words)
    assert not [word for word in lost if any(map(str.isalnum, word))]


@pytest.mark.parametrize("text", ["1 a " * 2000, "5 km " * 1600, "$" * 8000, "a " * 4000, "1" * 8000])
def test_odd_texts_take_no_longer_than_their_length(text: str) -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        said(text[:count])
        return time.process_time() - started

    quarter, whole = min(seconds(2000) for _ in range(3)), seconds(8000)
    assert whole < 12 * max(quarter, 0.005)
