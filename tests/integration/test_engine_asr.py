"""Moonshine and Silero on real weights and real speech, without process or wire."""

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors

from audiocpp.engines.errors import InvalidInput, LoadError
from audiocpp.engines.families import find_family
from audiocpp.engines.family import Data, Finalize, LoadContext
from audiocpp.engines.inline import run_inline
from audiocpp.engines.runtimes.onnxruntime import open_onnx
from audiocpp.engines.tasks import AudioFormat, Finalized, Segment, TaskRequest, TextDelta

pytestmark = pytest.mark.integration


def files_of(models_root: Path) -> dict[str, Path]:
    moonshine, silero = models_root / "moonshine_tiny_en", models_root / "silero_vad"
    return {
        "encoder": moonshine / "encoder_model.ort",
        "decoder": moonshine / "decoder_model_merged.ort",
        "tokenizer": moonshine / "tokenizer.bin",
        "vad": silero / "silero_vad_16k_sequence.onnx",
        "sequence": silero / "silero_vad_16k_sequence.onnx",
    }


def load(family: str, files: dict[str, Path]):
    def open_graph(path, options):
        return open_onnx(path, options, providers=[("CPUExecutionProvider", {})], threads=1, cache_dir=None)

    return find_family(family).load(LoadContext(files=files, open_graph=open_graph))


@pytest.fixture(scope="module")
def moonshine(models_root: Path) -> Iterator:
    with closing(load("moonshine_asr", files_of(models_root))) as model:
        model.warm_up()
        yield model


@pytest.fixture(scope="module")
def silero(models_root: Path) -> Iterator:
    with closing(load("silero_vad", files_of(models_root))) as model:
        model.warm_up()
        yield model


def pieces(data: bytes, size: int) -> list[Data]:
    return [Data(data[at : at + size]) for at in range(0, len(data), size)]


def run(model, task: str, path: Path, *, mode: str = "offline", size: int = 19_201, **options):
    samples, rate = soundfile.read(path, dtype="int16")
    audio = AudioFormat(sample_rate=rate, encoding="s16le")
    request = TaskRequest(task=task, mode=mode, audio=audio, options=options)
    return list(run_inline(model.run(request), pieces(samples.tobytes(), size)))


def text_of(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("name", ["two_cities", "beckett"])
@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_the_words_of_a_passage_are_recognised(moonshine, audio_files, name: str, mode: str) -> None:
    events = run(moonshine, "asr", audio_files[f"{name}.wav"], mode=mode)
    assert word_errors(passage(name), text_of(events)) <= MAX_WORD_ERRORS
    segments = [event for event in events if isinstance(event, Segment)]
    assert " ".join(segment.text for segment in segments) == text_of(events)
    assert all(earlier.end <= later.start for earlier, later in pairwise(segments))


def test_live_and_offline_hear_the_same_words(moonshine, audio_files) -> None:
    path = audio_files["endgame_nagg_nell.wav"]
    offline, live = (text_of(run(moonshine, "asr", path, mode=mode)) for mode in ("offline", "streaming"))
    assert word_errors(offline, live) <= 0.05


@pytest.mark.parametrize("size", [999, 1 << 20])
def test_the_split_of_the_input_does_not_change_a_transcript(moonshine, audio_files, size: int) -> None:
    path = audio_files["beckett.wav"]
    assert run(moonshine, "asr", path, size=size) == run(moonshine, "asr", path)


def test_a_finalize_gives_the_text_up_to_there(moonshine, audio_files) -> None:
    samples, rate = soundfile.read(audio_files["beckett.wav"], dtype="int16")
    request = TaskRequest(
        task="asr", mode="streaming", audio=AudioFormat(sample_rate=rate, encoding="s16le"), options={"vad": "off"}
    )
    middle = round(4.5 * rate)
    inputs = [Data(samples[:middle].tobytes()), Finalize("half"), Data(samples[middle:].tobytes())]
    events = list(run_inline(moonshine.run(request), inputs))
    half = events.index(Finalized("half"))
    assert word_errors("ever tried ever failed no matter", text_of(events[:half])) == 0
    assert len(text_of(events[half:]).split()) == 6


def tones() -> np.ndarray:
    time_s = np.arange(16_000 * 20) / 16_000
    return sum(0.1 * np.sin(2 * np.pi * pitch * time_s) for pitch in (220, 277, 330))


@pytest.mark.parametrize("mode", ["offline", "streaming"])
@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(16_000 * 20),
        np.random.default_rng(2).normal(0, 0.001, 16_000 * 20),
        np.random.default_rng(3).normal(0, 0.05, 16_000 * 20),
        tones(),
    ],
    ids=["silence", "soft noise", "loud noise", "tones"],
)
def test_what_is_no_speech_gives_no_text(moonshine, samples: np.ndarray, mode: str) -> None:
    request = TaskRequest(task="asr", mode=mode, audio=AudioFormat(sample_rate=16_000))
    assert list(run_inline(moonshine.run(request), pieces(samples.astype("<f4").tobytes(), 64_000))) == []


def test_speech_is_found_where_the_recording_has_it(silero, audio_files) -> None:
    """The recording begins with a second of silence and ends with two."""
    events = run(silero, "vad", audio_files["two_cities.wav"])
    assert 1.0 < events[0].start < 1.4
    assert 41.5 < events[-1].end < 42.2
    live = run(silero, "vad", audio_files["two_cities.wav"], mode="streaming", size=4800)
    assert [event for event in live if isinstance(event, Segment)] == events


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"language": "de"}, "language"),
        ({"task": "tts"}, "task"),
        ({"audio": None}, "audio"),
        ({"options": {"words": True}}, "words"),
        ({"options": {"vad": "maybe"}}, "vad"),
        ({"mode": "streaming", "options": {"endpoint_silence_ms": 5}}, "endpoint_silence_ms"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_by_field(moonshine, change, param: str) -> None:
    request = {"task": "asr", "audio": AudioFormat(sample_rate=16_000)} | change
    with pytest.raises(InvalidInput) as refusal:
        moonshine.run(TaskRequest(**request))
    assert refusal.value.param == param


@pytest.mark.parametrize("role", ["encoder", "decoder", "tokenizer", "vad"])
def test_a_damaged_file_of_the_model_is_named(models_root: Path, tmp_path: Path, role: str) -> None:
    files = files_of(models_root)
    broken = tmp_path / files[role].name
    broken.write_bytes(files[role].read_bytes()[:100_001])
    with pytest.raises(LoadError, match=broken.name):
        load("moonshine_asr", files | {role: broken})
