"""Kokoro on its real weights and voices, without process or wire; what it says is heard by Moonshine."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import jiwer
import numpy as np
import pytest
from tests.integration.round_trip import (
    MAX_WORD_ERRORS,
    SENTENCES,
    hear,
    load,
    load_moonshine,
    speak,
    spoken_words,
    words,
)

from audiocpp.daemon.packages import PackageStore
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.families.kokoro_tts import RATE_HZ
from audiocpp.engines.family import LoadedModel

pytestmark = pytest.mark.integration

SENTENCE = SENTENCES[0]
SHORT = "Good morning."


@pytest.fixture(scope="module")
def kokoro(every_model: Path) -> Iterator[LoadedModel]:
    catalog = Catalog.load()
    spec = catalog.family("kokoro_tts")
    files = PackageStore(every_model, catalog).files(spec, spec.default_package)
    with closing(load("kokoro_tts", files)) as model:
        model.warm_up()
        yield model


@pytest.fixture(scope="module")
def moonshine(every_model: Path) -> Iterator[LoadedModel]:
    with closing(load_moonshine(every_model)) as model:
        yield model


def samples(model: LoadedModel, **request) -> np.ndarray:
    return np.concatenate([np.frombuffer(chunk.pcm, "<f4") for chunk in speak(model, SHORT, **request)])


def test_what_kokoro_says_is_understood(kokoro: LoadedModel, moonshine: LoadedModel) -> None:
    sentences = SENTENCES[:4]
    heard = [words(hear(moonshine, speak(kokoro, sentence))) for sentence in sentences]
    assert jiwer.wer([spoken_words(sentence) for sentence in sentences], heard) <= MAX_WORD_ERRORS, heard


@pytest.mark.parametrize("voice", ["bm_george", "af_bella+am_adam", "af_heart(2)+bf_emma(1)"])
def test_other_voices_and_mixes_say_the_same(kokoro: LoadedModel, moonshine: LoadedModel, voice: str) -> None:
    heard = words(hear(moonshine, speak(kokoro, SENTENCE, voice=voice)))
    assert jiwer.wer(spoken_words(SENTENCE), heard) <= MAX_WORD_ERRORS, heard


def test_a_mix_is_neither_of_its_voices(kokoro: LoadedModel) -> None:
    """Voices speak at different paces, and the model gives the same text and style the same length."""
    made = {voice: samples(kokoro, voice=voice).size for voice in ("af_bella", "am_adam", "af_bella+am_adam")}
    assert samples(kokoro, voice="af_bella(3)").size == made["af_bella"]
    assert len(set(made.values())) == 3


def test_speed_changes_the_length(kokoro: LoadedModel) -> None:
    slow, fast = (samples(kokoro, options={"speed": speed}).size for speed in (0.5, 2.0))
    assert slow > 2 * fast


def test_each_sentence_is_a_chunk_of_audible_speech(kokoro: LoadedModel) -> None:
    chunks = speak(kokoro, f"{SHORT} {SHORT}")
    assert len(chunks) == 2
    for chunk in chunks:
        assert chunk.sample_rate == RATE_HZ
        heard = np.frombuffer(chunk.pcm, "<f4")
        assert 0.1 < np.abs(heard).max() <= 1.0
        assert 0.5 * RATE_HZ < heard.size < 4 * RATE_HZ
