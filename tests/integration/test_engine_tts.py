"""Piper on a real voice, without process or wire; what it says is heard by Moonshine."""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
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

from audiocpp.engines.family import LoadedModel
from audiocpp.engines.inline import run_inline
from audiocpp.engines.tasks import AudioChunk, TaskRequest

pytestmark = pytest.mark.integration

RATE = 22050


@pytest.fixture(scope="module")
def piper(models_root: Path) -> Iterator[LoadedModel]:
    model = models_root / "piper_en_us_joe_medium" / "en_US-joe-medium.onnx"
    with closing(load("piper_tts", {"model": model, "config": model.with_name(f"{model.name}.json")})) as voice:
        voice.warm_up()
        yield voice


@pytest.fixture(scope="module")
def moonshine(models_root: Path) -> Iterator[LoadedModel]:
    with closing(load_moonshine(models_root)) as model:
        yield model


def samples(chunks: list[AudioChunk]) -> np.ndarray:
    return np.concatenate([np.frombuffer(chunk.pcm, "<f4") for chunk in chunks])


def test_what_piper_says_is_understood(piper: LoadedModel, moonshine: LoadedModel) -> None:
    heard = [words(hear(moonshine, speak(piper, sentence))) for sentence in SENTENCES]
    assert jiwer.wer([spoken_words(sentence) for sentence in SENTENCES], heard) <= MAX_WORD_ERRORS, heard


def test_each_sentence_is_a_chunk_of_full_range_speech(piper: LoadedModel) -> None:
    chunks = speak(piper, "One sentence is here. Another follows it! Is this the third?", voice="joe", language="en-US")
    assert len(chunks) == 3
    for chunk in chunks:
        assert chunk.sample_rate == RATE
        heard = np.frombuffer(chunk.pcm, "<f4")
        assert 0.5 * RATE < heard.size < 5 * RATE
        assert np.abs(heard).max() == pytest.approx(1.0)


def test_a_faster_voice_takes_less_time(piper: LoadedModel) -> None:
    text = "The quick brown fox jumps over the lazy dog and runs away."
    slow, fast = (samples(speak(piper, text, options={"speed": speed})).size for speed in (0.5, 2.0))
    assert slow > 2.5 * fast


def test_a_break_is_heard_as_silence(piper: LoadedModel) -> None:
    _, second = speak(piper, 'Hello <break time="800ms"/> there')
    silence = round(0.8 * RATE)
    assert not np.frombuffer(second.pcm, "<f4")[:silence].any()


@pytest.mark.parametrize("text", ["letters and spaces " * 32, "x" * 300])
def test_text_without_punctuation_is_spoken_in_several_chunks(piper: LoadedModel, text: str) -> None:
    request = TaskRequest(task="tts", text=text, options={"speed": 4.0})
    assert len(list(islice(run_inline(piper.run(request)), 2))) == 2
