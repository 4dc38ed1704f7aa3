"""The way from a request's text to the pieces that a model speaks."""

import time
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audiocpp.engines.text.markup import Pause, text_portions
from audiocpp.engines.text.speech import speech_pieces


def iter_pieces(text: str, max_chars: int = 180) -> Iterator[str | Pause]:
    for portion in text_portions(text):
        yield from speech_pieces(portion, language="en-US", max_chars=max_chars)


def pieces(text: str, max_chars: int = 180) -> list[str | Pause]:
    return list(iter_pieces(text, max_chars))


def test_a_text_becomes_sentences_in_words_with_its_pauses() -> None:
    assert pieces("**Hello** you. I have 2.\n\n<break time='1s'/> Bye") == [
        "Hello you.",
        "I have two.",
        Pause(1.0),
        "Bye",
    ]


@pytest.mark.parametrize("text", ["", " \n\t", "...", "?!", "😀 👍", "---", "<speak></speak>", "**", "\x00", "“”"])
def test_what_cannot_be_spoken_yields_nothing(text: str) -> None:
    assert pieces(text) == []


def test_a_number_that_grows_in_words_stays_under_the_limit() -> None:
    cut = [piece for piece in pieces("7" * 600) if isinstance(piece, str)]
    assert all(len(piece) <= 180 for piece in cut)
    assert " ".join(piece for piece in cut).split() == ["seven"] * 600


UNABBREVIATED = "bhjkqwxz"
"""Letters that make no abbreviation and no unit, which would be read as other words."""


@settings(deadline=None)
@given(
    st.lists(st.text(UNABBREVIATED, min_size=1, max_size=30), min_size=1, max_size=60),
    st.sampled_from([". ", ", ", " "]),
)
def test_every_word_is_kept_once(words: list[str], separator: str) -> None:
    spoken = " ".join(piece for piece in pieces(separator.join(words), 40) if isinstance(piece, str))
    assert "".join(character for character in spoken if character.isalpha()) == "".join(words)


def test_the_first_piece_of_a_long_text_costs_as_little_as_of_a_short_one() -> None:
    def first_s(repeats: int) -> float:
        text = "The 3 quick foxes jumped. " * repeats
        started = time.perf_counter()
        assert len(list(islice(iter_pieces(text), 1))) == 1
        return time.perf_counter() - started

    assert min(first_s(20_000) for _ in range(3)) < 0.2


@pytest.mark.parametrize(
    "unit", ["7", "1999", "a-", "a.", "1-", "1,", "1.", "$", "@", "A.", "http://", "1/", "1:0", "Nov ", "+1 "]
)
def test_hostile_repetition_costs_little(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    started = time.perf_counter()
    pieces(text)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("unit", ["Dr. ", "e.g. ", ". ", "?! ", "*a ", "[a](b) ", "x [ "])
def test_the_first_piece_of_a_hostile_text_does_not_wait_for_all_of_it(unit: str) -> None:
    text = f"{unit * (400_000 // len(unit))}\n\nThe end."
    started = time.perf_counter()
    assert next(iter_pieces(text), None) is not None
    assert time.perf_counter() - started < 3
