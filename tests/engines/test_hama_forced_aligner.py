"""The `align` task over fake graphs: what is fed to them, where words come to lie, what is refused.

The fakes read letters as phonemes and hear tones: the letter `a` is a tone of 50 Hz, `b` of 100 Hz, and so on.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput, LoadError, RunCancelled
from audiocpp.engines.families.hama_forced_aligner import HOP_SAMPLES, MAX_TEXT_CHARS, RATE_HZ, HamaForcedAligner
from audiocpp.engines.family import Data, LoadContext
from audiocpp.engines.graph import Array, GraphPlacement, TensorSpec
from audiocpp.engines.inline import run_inline
from audiocpp.engines.tasks import AudioFormat, Segment, TaskRequest, Word

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ENCODER_SYMBOLS = ["<pad>", "<unk>", *LETTERS]
DECODER_SYMBOLS = ["<pad>", "<sos>", "<eos>", "<unk>", " ", *LETTERS.upper()]
FIRST_PHONEME = DECODER_SYMBOLS.index("A")
END = DECODER_SYMBOLS.index("<eos>")
SYMBOLS = len(DECODER_SYMBOLS) + 2
BLANK = SYMBOLS - 1
FRAME_S = HOP_SAMPLES / RATE_HZ
SOUND_S = 2 * FRAME_S


class FakeGraph:
    inputs: Sequence[TensorSpec] = ()
    outputs: Sequence[TensorSpec] = ()
    placement = GraphPlacement("fake", ())

    def __init__(self) -> None:
        self.feeds: list[Mapping[str, Array]] = []
        self.closed = False

    def run(
        self, feeds: Mapping[str, Array], control: RunControl, *, outputs: Sequence[str] | None = None
    ) -> list[Array]:
        control.check()
        self.feeds.append(feeds)
        answers = self.answer(feeds)
        return [answers[name] for name in outputs or answers]

    def answer(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


class Letters(FakeGraph):
    """The encoder: hands the letters on, and a count of steps as the hidden state."""

    def answer(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        letters = feeds["input_ids"]
        hidden = np.zeros((2, len(letters), 1), np.float32)
        others = dict.fromkeys(("projected_keys", "encoder_mask", "prev_attn"), letters)
        return {"encoder_outputs": letters, "hidden": hidden, **others}


class Spelling(FakeGraph):
    """The decoder: a letter a step."""

    def answer(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        step = int(feeds["hidden"][0, 0, 0])
        letters = feeds["encoder_outputs"]
        letter = letters[:, step] if step < letters.shape[1] else np.zeros(len(letters), np.int64)
        phoneme = np.where(letter > 1, letter - 2 + FIRST_PHONEME, END)
        return {"next_token_ids": phoneme, "hidden_out": feeds["hidden"] + 1, "prev_attn_out": feeds["prev_attn"]}


class Tones(FakeGraph):
    """The hearing: each frame is the letter whose tone it holds, or blank."""

    outputs = (TensorSpec("log_probs", np.dtype(np.float32), (None, None, SYMBOLS)),)

    def answer(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        (samples,) = feeds["waveform"]
        count = len(samples) // HOP_SAMPLES + 1
        around = np.pad(samples, (HOP_SAMPLES // 2, HOP_SAMPLES))
        spectra = np.abs(np.fft.rfft(around[: count * HOP_SAMPLES].reshape(count, HOP_SAMPLES)))
        a_tone_for_a_third_of_the_frame = 0.3 * 0.5 * HOP_SAMPLES / 2
        tones = FIRST_PHONEME + spectra.argmax(axis=1) - 1
        symbols = np.where(spectra.max(axis=1) < a_tone_for_a_third_of_the_frame, BLANK, tones)
        log_probs = np.full((1, count, SYMBOLS), np.log(0.1 / (SYMBOLS - 1)), np.float32)
        log_probs[0, np.arange(count), symbols] = np.log(0.9)
        return {"log_probs": log_probs}


class Model:
    """The family over the fakes."""

    def __init__(self, folder: Path) -> None:
        vocabulary = folder / "vocabulary.json"
        vocabulary.write_text(json.dumps({"encoder": ENCODER_SYMBOLS, "decoder": DECODER_SYMBOLS}))
        self.graphs = {"model": Tones(), "g2p_encoder": Letters(), "g2p_decoder": Spelling()}
        files = {role: Path(role) for role in self.graphs} | {"vocabulary": vocabulary}
        context = LoadContext(files=files, open_graph=lambda path, _: self.graphs[path.name])
        self.aligner = HamaForcedAligner.load(context)

    def segments(self, samples: np.ndarray, text: str, *, rate: int = RATE_HZ, size: int = 60_001) -> list[Segment]:
        audio = AudioFormat(sample_rate=rate, channels=1 if samples.ndim == 1 else samples.shape[1])
        data = samples.astype("<f4").tobytes()
        pieces = [Data(data[at : at + size]) for at in range(0, len(data), size)]
        events = list(run_inline(self.aligner.run(TaskRequest(task="align", text=text, audio=audio)), pieces))
        assert all(isinstance(event, Segment) for event in events)
        return events  # type: ignore[return-value]

    def words(self, samples: np.ndarray, text: str, **more: Any) -> list[Word]:
        return [word for segment in self.segments(samples, text, **more) for word in segment.words]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(tmp_path_factory.mktemp("model"))


def recording(words: Sequence[tuple[str, float]], length_s: float, *, rate: int = RATE_HZ) -> np.ndarray:
    """Words with their starts in seconds, a multiple of frames; each letter is a tone of two frames."""
    samples = np.zeros(round(length_s * rate), np.float32)
    for word, start_s in words:
        for number, letter in enumerate(word):
            first = max(round((start_s - FRAME_S / 2 + number * SOUND_S) * rate), 0)
            time_s = np.arange(round(SOUND_S * rate)) / rate
            tone = 0.4 * np.sin(2 * np.pi * 50 * (LETTERS.index(letter) + 1) * time_s)
            samples[first : first + len(tone)] = tone[: len(samples) - first]
    return samples


SAID = [("abc", 0.6), ("dab", 1.0), ("face", 2.4)]
TEXT = "Abc, dab. Face!"


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (16_000, 1), (16_000, 2), (44_100, 2), (48_000, 1)])
def test_times_are_seconds_of_the_callers_audio(model: Model, rate: int, channels: int) -> None:
    samples = recording(SAID, 3.5, rate=rate)
    words = model.words(samples if channels == 1 else np.stack([samples] * channels, axis=1), TEXT, rate=rate)
    assert [word.word for word in words] == ["Abc,", "dab.", "Face!"]
    for word, (sounds, start_s) in zip(words, SAID, strict=True):
        assert word.start == pytest.approx(start_s - 0.05, abs=0.021)
        assert word.end == pytest.approx(start_s + len(sounds) * SOUND_S + 0.07, abs=0.021)
        assert word.confidence == pytest.approx(0.9, abs=0.01)


def test_each_sentence_is_a_segment_from_its_first_word_to_its_last(model: Model) -> None:
    segments = model.segments(recording(SAID, 3.5), TEXT)
    assert [(segment.index, segment.text) for segment in segments] == [(0, "Abc, dab."), (1, "Face!")]
    for segment in segments:
        assert (segment.start, segment.end) == (segment.words[0].start, segment.words[-1].end)


def test_words_without_a_pause_touch_and_do_not_overlap(model: Model) -> None:
    words = model.words(recording([("abcdabc", 0.4)], 1.0), "abc dab c")
    assert words[0].end == words[1].start
    assert words[1].end == words[2].start


def test_no_time_lies_outside_the_recording(model: Model) -> None:
    samples = recording([("abc", 0.0), ("de", 0.5)], 0.58)
    words = model.words(samples, "abc de")
    assert words[0].start == 0
    assert words[-1].end <= 0.58


def test_a_word_that_is_not_said_has_little_confidence(model: Model) -> None:
    words = model.words(recording(SAID, 3.5), "abc dab kkk face")
    assert words[2].confidence < 0.05
    assert min(words[place].confidence for place in (0, 1, 3)) > 0.8


def test_figures_are_found_by_what_is_said_for_them(model: Model) -> None:
    words = model.words(
        recording([("abc", 0.4), ("two", 0.8), ("kilometers", 1.0), ("face", 1.8)], 2.5), "abc 2 km face"
    )
    assert [word.word for word in words] == ["abc", "2", "km", "face"]
    assert [word.start for word in words] == pytest.approx([0.35, 0.75, 0.95, 1.75], abs=0.03)


LONG = [("abcde", at + 0.3) for at in range(0, 35, 2)]
"""Among them words across the places where a recording is cut, at 10, 20 and 30 s."""


def long_recording() -> tuple[np.ndarray, str]:
    said = [*LONG, *(("fghij", at - 0.1) for at in (10, 20, 30))]
    said.sort(key=lambda item: item[1])
    return recording(said, 36), " ".join(word for word, _ in said)


def test_a_long_recording_is_heard_in_stretches_with_a_margin(model: Model) -> None:
    samples, text = long_recording()
    hearing = model.graphs["model"]
    hearing.feeds.clear()
    words = model.words(samples, text)
    assert [word.start for word in words if word.word == "fghij"] == pytest.approx([9.85, 19.85, 29.85], abs=0.021)
    assert min(word.confidence for word in words) > 0.85
    assert [feeds["waveform"].shape[1] / RATE_HZ for feeds in hearing.feeds] == [11, 12, 12, 7]
    assert all(feeds["waveform_lengths"].tolist() == [feeds["waveform"].shape[1]] for feeds in hearing.feeds)


@pytest.mark.parametrize("size", [1999, 64_000, 700_001])
def test_the_split_of_the_input_does_not_change_the_words(model: Model, size: int) -> None:
    samples, text = long_recording()
    assert model.words(samples, text, size=size) == model.words(samples, text, size=1 << 30)


@pytest.mark.parametrize("level", [0.02, 0.1, 2.0])
def test_soft_and_loud_recordings_are_brought_to_one_level(model: Model, level: float) -> None:
    hearing = model.graphs["model"]
    hearing.feeds.clear()
    words = model.words(level * recording(SAID, 3.5), TEXT)
    assert words == model.words(recording(SAID, 3.5), TEXT)
    assert np.abs(hearing.feeds[0]["waveform"]).max() == pytest.approx(0.5, rel=1e-3)


def test_a_spoken_word_is_read_once_and_a_long_one_in_pieces(model: Model) -> None:
    encoder = model.graphs["g2p_encoder"]
    encoder.feeds.clear()
    long_word = "abcdefghij" * 3
    with pytest.raises(InvalidInput):
        model.words(np.zeros(RATE_HZ), f"abc Abc, dab Café-dab {long_word} naïve")
    (feeds,) = encoder.feeds
    read = ["".join(ENCODER_SYMBOLS[letter] for letter in row if letter) for row in feeds["input_ids"].tolist()]
    assert sorted(read) == sorted(["abc", "dab", "cafe", "naive", long_word[:20], long_word[20:]])
    assert feeds["input_lengths"].tolist() == [len(word) for word in read]


def test_words_are_read_in_batches(model: Model) -> None:
    encoder = model.graphs["g2p_encoder"]
    encoder.feeds.clear()
    with pytest.raises(InvalidInput):
        model.words(np.zeros(RATE_HZ), " ".join(f"ab{one}{two}" for one in LETTERS for two in "abc"))
    assert [len(feeds["input_ids"]) for feeds in encoder.feeds] == [32, 32, 14]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"task": "asr"}, "task"),
        ({"audio": None}, "audio"),
        ({"language": "ko"}, "language"),
        ({"text": "a" * (MAX_TEXT_CHARS + 1)}, "text"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_before_its_audio(model: Model, change, param: str) -> None:
    request = {"task": "align", "text": TEXT, "audio": AudioFormat(sample_rate=RATE_HZ)} | change
    with pytest.raises(InvalidInput) as refusal:
        model.aligner.run(TaskRequest(**request))
    assert refusal.value.param == param


@pytest.mark.parametrize("text", ["", " - ... 😀"])
def test_a_text_without_a_word_is_refused(model: Model, text: str) -> None:
    with pytest.raises(InvalidInput, match="no word") as refusal:
        model.words(recording(SAID, 3.5), text)
    assert refusal.value.param == "text"


@pytest.mark.parametrize("samples", [np.zeros(0), np.zeros(9), np.zeros(RATE_HZ * 15)], ids=["none", "nine", "15 s"])
def test_a_recording_without_speech_is_refused(model: Model, samples: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match="no speech") as refusal:
        model.words(samples, TEXT)
    assert refusal.value.param == "audio"


def test_a_text_that_the_recording_has_no_room_for_is_refused(model: Model) -> None:
    with pytest.raises(InvalidInput, match=r"120 words, more than a recording of 3\.5 s holds") as refusal:
        model.words(recording(SAID, 3.5), "abc " * 120)
    assert refusal.value.param == "text"


def test_a_cancelled_run_ends_in_every_computation(model: Model) -> None:
    request = TaskRequest(task="align", text=TEXT, audio=AudioFormat(sample_rate=RATE_HZ))
    pieces = [Data(recording(SAID, 3.5).tobytes())]
    control = RunControl()
    control.cancel()
    with pytest.raises(RunCancelled):
        list(run_inline(model.aligner.run(request), pieces, control=control))

    hearing = model.graphs["model"]
    control = RunControl()
    hearing.answer, answer = lambda feeds: (control.cancel(), answer(feeds))[1], hearing.answer  # type: ignore[method-assign]
    try:
        with pytest.raises(RunCancelled):
            list(run_inline(model.aligner.run(request), pieces, control=control))
    finally:
        del hearing.answer


def test_closing_closes_all_graphs(tmp_path: Path) -> None:
    model = Model(tmp_path)
    model.aligner.warm_up()
    model.aligner.close()
    assert all(graph.closed for graph in model.graphs.values())


@pytest.mark.parametrize("content", ['{"encoder": []}', "[", '{"encoder": ["a"], "decoder": ["a"]}'])
def test_a_vocabulary_that_does_not_belong_to_the_model_is_refused(tmp_path: Path, content: str) -> None:
    model = Model(tmp_path)
    vocabulary = tmp_path / "vocabulary.json"
    vocabulary.write_text(content)
    files = {role: Path(role) for role in model.graphs} | {"vocabulary": vocabulary}
    with pytest.raises(LoadError, match=r"vocabulary\.json"):
        HamaForcedAligner.load(LoadContext(files=files, open_graph=lambda path, _: model.graphs[path.name]))
