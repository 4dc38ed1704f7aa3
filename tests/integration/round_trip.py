"""Speech that is made and heard again, without process or wire: what comes back are words to compare."""

import re
from pathlib import Path

from audiocpp.engines.families import find_family
from audiocpp.engines.family import Data, LoadContext, LoadedModel
from audiocpp.engines.inline import run_inline
from audiocpp.engines.runtimes.onnxruntime import open_onnx
from audiocpp.engines.tasks import AudioChunk, AudioFormat, TaskRequest, TextDelta
from audiocpp.engines.text.speech import normalise, speech_pieces

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


def load_moonshine(models_root: Path) -> LoadedModel:
    folder = models_root / "moonshine_tiny_en"
    files = {
        "encoder": folder / "encoder_model.ort",
        "decoder": folder / "decoder_model_merged.ort",
        "tokenizer": folder / "tokenizer.bin",
        "vad": models_root / "silero_vad" / "silero_vad_16k_sequence.onnx",
    }
    return load("moonshine_asr", files)


def speak(model: LoadedModel, text: str, **request) -> list[AudioChunk]:
    chunks = list(run_inline(model.run(TaskRequest(task="tts", text=text, **request))))
    assert all(isinstance(chunk, AudioChunk) for chunk in chunks)
    return chunks


def hear(model: LoadedModel, chunks: list[AudioChunk]) -> str:
    request = TaskRequest(task="asr", audio=AudioFormat(sample_rate=chunks[0].sample_rate))
    events = run_inline(model.run(request), [Data(chunk.pcm) for chunk in chunks])
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def words(text: str) -> str:
    """Lower case, figures as words, without punctuation: what is compared is what was said, not how it is written."""
    return " ".join(re.sub(r"[^a-z']+", " ", normalise(text, "en-US").lower()).split())


def spoken_words(text: str) -> str:
    pieces = speech_pieces(text, language="en-US", max_chars=10_000)
    return words(" ".join(piece for piece in pieces if isinstance(piece, str)))
