"""Phonemes of espeak-ng, and what happens without it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from audiocpp.engines.errors import LoadError, MissingDependency
from audiocpp.engines.phonemes import EspeakPhonemizer


@pytest.fixture(scope="module")
def english() -> EspeakPhonemizer:
    return EspeakPhonemizer("en-us")


def test_words_become_ipa(english: EspeakPhonemizer) -> None:
    assert english.phonemize("Hello world") == "həlˈoʊ wˈɜːld"


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Well, yes; no: maybe. What? Go!", ",;:.?!"),
        ("Wait… what", "."),
        ("one — two – three - four -- five", ",,,,"),
        ("one (two) three [four]", ",,"),
        ('He said "no," and "go!"', ",!"),
        ("What?!", "?"),
        ("no marks", ""),
        ("x-ray and 3.5", ""),
    ],
)
def test_marks_stay_where_they_are_heard(english: EspeakPhonemizer, text: str, marks: str) -> None:
    assert "".join(symbol for symbol in english.phonemize(text) if symbol in ",;:.?!") == marks


def test_a_mark_follows_its_clause_without_a_space(english: EspeakPhonemizer) -> None:
    assert english.phonemize("Hello, world.") == "həlˈoʊ, wˈɜːld."


@pytest.mark.parametrize("text", ["", " ", "...", "—", "?!", "()"])
def test_nothing_to_pronounce_gives_nothing(english: EspeakPhonemizer, text: str) -> None:
    assert english.phonemize(text) == ""


def test_no_word_of_a_long_clause_is_lost(english: EspeakPhonemizer) -> None:
    assert english.phonemize("word " * 700).split() == ["wˈɜːd"] * 700


def test_switches_to_another_language_leave_no_flag(english: EspeakPhonemizer) -> None:
    assert "(" not in EspeakPhonemizer("de").phonemize("Das ist ein weekend mit der City")


def test_an_unknown_voice_is_a_load_error() -> None:
    with pytest.raises(LoadError, match="xx-none"):
        EspeakPhonemizer("xx-none")


def test_a_missing_library_is_said_with_the_command_that_adds_it() -> None:
    with pytest.raises(MissingDependency, match=r"pip install 'audiocppd\[tts\]'$"):
        EspeakPhonemizer("en-us", loader="no_such_loader")


def test_voices_shared_by_threads_do_not_mix() -> None:
    words = {voice: EspeakPhonemizer(voice) for voice in ("en-us", "de", "fr")}
    alone = {voice: phonemizer.phonemize("Paris station") for voice, phonemizer in words.items()}
    assert len(set(alone.values())) == 3
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda voice: (voice, words[voice].phonemize("Paris station")), list(words) * 100))
    assert all(phonemes == alone[voice] for voice, phonemes in answers)
