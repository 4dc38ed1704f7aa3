"""Piper on a real voice, without process or wire; what it says is heard by Moonshine."""

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import jiwer
import numpy as np
import pytest

from audiocpp.engines.families import find_family
from audiocpp.engines.family import Data, LoadContext, LoadedModel
from audiocpp.engines.inline import run_inline
from audiocpp.engines.runtimes.onnxruntime import open_onnx
from audiocpp.engines.tasks import AudioChunk, AudioFormat, TaskRequest, TextDelta
from audiocpp.engines.text.speech import normalise, speech_pieces

pytestmark = pytest.mark.integration

RATE = 22050
MAX_WORD_ERRORS = 0.10
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Please schedule the meeting for tomorrow morning, and send me a short summary before lunch.",
    "In 1999 the company sold 1,250,000 phones.",
    "On November 30, 2026, at 3:30 pm, we met in **Paris**.",
    "Doctor Brown has 22 apples, and 50% of the plums are ripe.",
    "It was the best of times, it was the worst of times.",
)


def load(family: str, files: dict[str, Path]) -> LoadedModel:
    def open_graph(path, options):
        return open_onnx(path, options, providers=[("CPUExecutionProvider", {})], threads=2, cache_dir=None)

    return find_family(family).load(LoadContext(files=files, open_graph=open_graph))


@pytest.fixture(scope="module")
def piper(models_root: Path) -> Iterator[LoadedModel]:
    model = models_root / "piper_en_us_joe_medium" / "en_US-joe-medium.onnx"
    with closing(load("piper_tts", {"model": model, "config": model.with_name(f"{model.name}.json")})) as voice:
        voice.warm_up()
        yield voice


@pytest.fixture(scope="module")
def moonshine(models_root: Path) -> Iterator[LoadedModel]:
    folder = models_root / "moonshine_tiny_en"
    files = {
        "encoder": folder / "encoder_model.ort",
        "decoder": folder / "decoder_model_merged.ort",
        "tokenizer": folder / "tokenizer.bin",
        "vad": models_root / "silero_vad" / "silero_vad_16k_sequence.onnx",
    }
    with closing(load("moonshine_asr", files)) as model:
        yield model


def speak(model: LoadedModel, text: str, **request) -> list[AudioChunk]:
    chunks = list(run_inline(model.run(TaskRequest(task="tts", text=text, **request))))
    assert all(isinstance(chunk, AudioChunk) and chunk.sample_rate == RATE for chunk in chunks)
    return chunks


def samples(chunks: list[AudioChunk]) -> np.ndarray:
    return np.concatenate([np.frombuffer(chunk.pcm, "<f4") for chunk in chunks])


def hear(model: LoadedModel, chunks: list[AudioChunk]) -> str:
    request = TaskRequest(task="asr", audio=AudioFormat(sample_rate=RATE))
    events = run_inline(model.run(request), [Data(chunk.pcm) for chunk in chunks])
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def words(text: str) -> str:
    """Lower case, figures as words, without punctuation: what is compared is what was said, not how it is written."""
    return " ".join(re.sub(r"[^a-z']+", " ", normalise(text, "en-US").lower()).split())


def spoken_words(text: str) -> str:
    pieces = speech_pieces(text, language="en-US", max_chars=10_000)
    return words(" ".join(piece for piece in pieces if isinstance(piece, str)))


def test_what_piper_says_is_understood(piper: LoadedModel, moonshine: LoadedModel) -> None:
    heard = [words(hear(moonshine, speak(piper, sentence))) for sentence in SENTENCES]
    assert jiwer.wer([spoken_words(sentence) for sentence in SENTENCES], heard) <= MAX_WORD_ERRORS, heard


def test_each_sentence_is_a_chunk_of_full_range_speech(piper: LoadedModel) -> None:
    chunks = speak(piper, "One sentence is here. Another follows it! Is this the third?", voice="joe", language="en-US")
    assert len(chunks) == 3
    for chunk in chunks:
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
