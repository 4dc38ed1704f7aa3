"""Piper's runs over a fake graph: what it is fed, in which order audio leaves, what is refused."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput, LoadError, RunCancelled
from audiocpp.engines.families.piper_tts import PiperTts
from audiocpp.engines.family import Background, Completed, End, LoadContext
from audiocpp.engines.graph import Array, GraphPlacement, TensorSpec
from audiocpp.engines.inline import run_inline
from audiocpp.engines.tasks import AudioChunk, TaskRequest
from audiocpp.engines.text.markup import LONGEST_PAUSE_S

RATE = 1000
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SYMBOLS = {symbol: [index] for index, symbol in enumerate("_^$ .,!?" + LETTERS)}


class CountingGraph:
    """Answers with one sample per symbol id, of the value half of the id: the audio tells what was spoken."""

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
        return [feeds["input"].astype(np.float32)[np.newaxis, np.newaxis] / 2]

    def close(self) -> None:
        self.closed = True


def config(**changes: Any) -> dict[str, Any]:
    return {
        "audio": {"sample_rate": RATE},
        "espeak": {"voice": "en-us"},
        "phoneme_type": "text",
        "phoneme_id_map": SYMBOLS,
        "inference": {"noise_scale": 0.5, "length_scale": 1.5, "noise_w": 0.25},
        "language": {"code": "en_US"},
        "dataset": "amy",
        **changes,
    }


class Spelling:
    """One answer to every text."""

    def __init__(self, phonemes: str) -> None:
        self._phonemes = phonemes

    def phonemize(self, text: str) -> str:
        return self._phonemes


class Voice:
    """A loaded model and the graph under it."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        path = folder / "voice.onnx.json"
        path.write_text(json.dumps(settings))
        self.graph = CountingGraph()
        context = LoadContext(files={"model": folder / "voice.onnx", "config": path}, open_graph=lambda *_: self.graph)
        self.model = PiperTts.load(context)

    def speak(self, text: str, **request: Any) -> list[AudioChunk]:
        chunks = list(run_inline(self.model.run(TaskRequest(task="tts", text=text, **request))))
        assert all(isinstance(chunk, AudioChunk) for chunk in chunks)
        return chunks  # type: ignore[return-value]

    @property
    def heard(self) -> str:
        """The letters that the graph was fed, in order."""
        letters = {SYMBOLS[letter][0]: letter for letter in LETTERS}
        fed = [id_ for feeds in self.graph.feeds for id_ in feeds["input"][0].tolist()]
        return "".join(letters[id_] for id_ in fed if id_ in letters)


@pytest.fixture
def voice(tmp_path: Path) -> Voice:
    return Voice(tmp_path, config())


@pytest.fixture
def choir(tmp_path: Path) -> Voice:
    return Voice(tmp_path, config(num_speakers=2, speaker_id_map={"bass": 0, "alto": 1}, default_speaker_id=1))


def samples(chunk: AudioChunk) -> np.ndarray:
    return np.frombuffer(chunk.pcm, "<f4")


def ids(word: str) -> list[int]:
    padded = [id_ for symbol in f"^{word}" for id_ in (*SYMBOLS[symbol], *SYMBOLS["_"])]
    return [*padded, *SYMBOLS["$"]]


def test_symbols_are_padded_and_enclosed(voice: Voice) -> None:
    voice.speak("ab.")
    (feeds,) = voice.graph.feeds
    assert feeds["input"].tolist() == [ids("ab.")]
    assert feeds["input"].dtype == feeds["input_lengths"].dtype == np.int64
    assert feeds["input_lengths"].tolist() == [len(ids("ab."))]
    assert "sid" not in feeds


def test_symbols_that_the_voice_does_not_know_are_left_out(voice: Voice) -> None:
    voice.speak("aÖb")
    assert voice.graph.feeds[0]["input"].tolist() == [ids("ab")]


def test_audio_is_full_range_mono_at_the_voice_s_rate(voice: Voice) -> None:
    (chunk,) = voice.speak("abc")
    assert (chunk.sample_rate, chunk.channels) == (RATE, 1)
    expected = np.array(ids("abc"), np.float32) / max(ids("abc"))
    np.testing.assert_allclose(samples(chunk), expected, rtol=1e-6)


def test_each_sentence_is_a_chunk_in_order(voice: Voice) -> None:
    words = ["one", "two", "three", "four", "five", "six"]
    chunks = voice.speak(" ".join(f"{word}." for word in words))
    assert [len(samples(chunk)) for chunk in chunks] == [len(ids(f"{word}.")) for word in words]


def test_a_break_is_silence_before_what_follows(voice: Voice) -> None:
    first, second = voice.speak('ab <break time="250ms"/><break time="50ms"/> cd <break time="9s"/>')
    assert len(samples(first)) == len(ids("ab"))
    assert not samples(second)[:300].any()
    assert len(samples(second)) == 300 + len(ids("cd"))


def test_breaks_in_a_row_are_no_longer_than_the_longest(voice: Voice) -> None:
    (chunk,) = voice.speak("<break time='9s'/>" * 100 + "ab")
    assert len(samples(chunk)) == LONGEST_PAUSE_S * RATE + len(ids("ab"))


def test_long_text_without_punctuation_is_all_spoken(voice: Voice) -> None:
    words = [f"{first}{second}" for first in LETTERS for second in LETTERS]
    voice.speak(" ".join(words))
    assert voice.heard == "".join(words)


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 200 / 1.5),
        ({"speed": 4.0}, 200),
        ({"speed": 0.25}, 200 / 6),
        ({"noise_w": 2.0}, 200 / 1.5 / 2),
        ({"speed": 0.25, "noise_w": 2.0}, 200 / 6 / 2),
    ],
)
@pytest.mark.parametrize("spelling", ["abc defgh, " * 40, "a" * 2000, "ab. " * 300])
def test_no_run_of_the_graph_is_longer_than_its_memory_allows(
    voice: Voice, spelling: str, options: dict[str, float], most: float
) -> None:
    """A character may have many phonemes, so the text's length says little."""
    voice.model._phonemizer = Spelling(spelling)
    voice.speak("x", options=options)
    fed = [feeds["input"].shape[1] for feeds in voice.graph.feeds]
    assert max(fed) <= 2 * most + len(ids(""))
    assert len(voice.heard) == sum(map(str.isalpha, spelling))


@pytest.mark.parametrize(
    ("options", "scales"),
    [
        ({}, [0.5, 1.5, 0.25]),
        ({"speed": 2.0}, [0.5, 0.75, 0.25]),
        ({"speed": 0.25, "noise_scale": 0, "noise_w": 2}, [0.0, 6.0, 2.0]),
    ],
)
def test_options_become_scales(voice: Voice, options: dict[str, float], scales: list[float]) -> None:
    voice.speak("a", options=options)
    assert voice.graph.feeds[0]["scales"].dtype == np.float32
    assert voice.graph.feeds[0]["scales"].tolist() == scales


@pytest.mark.parametrize(
    ("request_fields", "param"),
    [
        ({"options": {"speed": 0.2}}, "speed"),
        ({"options": {"speed": 4.1}}, "speed"),
        ({"options": {"speed": float("nan")}}, "speed"),
        ({"options": {"speed": True}}, "speed"),
        ({"options": {"noise_w": "1"}}, "noise_w"),
        ({"options": {"seed": 7}}, "seed"),
        ({"voice": "nobody"}, "voice"),
        ({"voice": "../../etc/passwd"}, "voice"),
        ({"language": "de"}, "language"),
        ({"language": "en-GB"}, "language"),
        ({"text": ""}, "input"),
        ({"text": "?! 👍 ..."}, "input"),
        ({"text": "<break time='1s'/>"}, "input"),
        ({"text": "ÖÄÜ"}, "input"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_before_any_audio(
    voice: Voice, request_fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        next(run_inline(voice.model.run(TaskRequest(task="tts", **{"text": "hello", **request_fields}))))
    assert refused.value.param == param


def test_a_path_as_voice_gets_the_answer_of_any_unknown_voice(voice: Voice, tmp_path: Path) -> None:
    messages = set()
    for name in ("nobody", str(tmp_path / "voice.onnx.json"), str(tmp_path / "nothing")):
        with pytest.raises(InvalidInput) as refused:
            voice.speak("hello", voice=name)
        messages.add(refused.value.message)
    assert len(messages) == 1


@pytest.mark.parametrize("language", ["", "en", "EN", "en-US", "en_us"])
def test_the_voice_s_language_is_accepted_however_it_is_written(voice: Voice, language: str) -> None:
    assert voice.speak("a", language=language)


def test_the_only_voice_has_the_name_of_its_dataset(voice: Voice) -> None:
    assert voice.model.voices == ("amy",)
    assert voice.speak("a", voice="amy")


def test_a_voice_without_a_dataset_has_the_name_of_its_file(tmp_path: Path) -> None:
    assert Voice(tmp_path, config(dataset="")).model.voices == ("voice",)


def test_speakers_are_voices_and_the_configured_one_is_the_default(choir: Voice) -> None:
    assert choir.model.voices == ("alto", "bass")
    for name in ("", "alto", "bass"):
        choir.speak("a", voice=name)
    assert [feeds["sid"].tolist() for feeds in choir.graph.feeds] == [[1], [1], [0]]


class Steps:
    """Advances a run by hand: its background work is computed in order, and told when the test wants."""

    def __init__(self, voice: Voice, text: str) -> None:
        self.run = voice.model.run(TaskRequest(task="tts", text=text))
        self.started: list[Background] = []
        self.results: dict[int, Completed] = {}
        self.yielded = self._until_not_background(None)

    def _until_not_background(self, answer: Any) -> Any:
        yielded = self.run.send(answer)
        while isinstance(yielded, Background):
            self.started.append(yielded)
            yielded = self.run.send(None)
        return yielded

    def compute(self) -> None:
        """All that was started."""
        for index, started in enumerate(self.started):
            if index not in self.results:
                results = started.work.function(started.work.rows, RunControl())
                self.results[index] = Completed(started.tag, results)

    def complete(self, index: int) -> Any:
        self.compute()
        return self.put(self.results[index])

    def put(self, item: Any) -> Any:
        self.yielded = self._until_not_background(item)
        return self.yielded


SIX = "one. two. three. four. five. six."


def test_the_first_sentence_is_computed_alone_and_a_bounded_number_ahead(voice: Voice) -> None:
    steps = Steps(voice, SIX)
    assert len(steps.started) == 1
    first = steps.complete(0)
    assert len(samples(first)) == len(ids("one."))
    assert len(steps.started) == 1, "the audio leaves before anything else is done"
    steps.put(None)
    assert len(steps.started) == 4
    steps.complete(3)
    assert len(steps.started) == 4


def test_sentences_that_finish_early_wait_for_their_turn(voice: Voice) -> None:
    steps = Steps(voice, SIX)
    steps.complete(0)
    steps.put(None)
    steps.complete(3)
    steps.complete(2)
    second = steps.complete(1)
    assert len(samples(second)) == len(ids("two."))
    assert [len(samples(steps.put(None))) for _ in range(2)] == [len(ids("three.")), len(ids("four."))]


def test_the_end_of_the_input_does_not_end_the_speech(voice: Voice) -> None:
    steps = Steps(voice, "one.")
    steps.put(End())
    assert isinstance(steps.complete(0), AudioChunk)


def test_a_failed_sentence_fails_the_run(voice: Voice) -> None:
    steps = Steps(voice, SIX)
    with pytest.raises(MemoryError):
        steps.put(Completed(steps.started[0].tag, (), MemoryError()))


def test_a_cancelled_sentence_does_not_reach_the_graph(voice: Voice) -> None:
    steps = Steps(voice, SIX)
    control = RunControl()
    control.cancel()
    work = steps.started[0].work
    with pytest.raises(RunCancelled):
        work.function(work.rows, control)
    assert voice.graph.feeds == []


def test_warming_up_runs_the_graph_and_closing_closes_it(choir: Voice) -> None:
    choir.model.warm_up()
    assert len(choir.graph.feeds) == 1
    choir.model.close()
    assert choir.graph.closed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not the configuration"),
        ("[]", "not the configuration"),
        (json.dumps({"audio": {"sample_rate": RATE}}), "not the configuration"),
        (json.dumps(config(phoneme_id_map={"a": [1]})), "lacks _"),
        (json.dumps(config(phoneme_type="pinyin")), "pinyin"),
    ],
)
def test_a_damaged_configuration_is_a_load_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "voice.onnx.json"
    path.write_text(content)
    context = LoadContext(files={"model": tmp_path / "voice.onnx", "config": path}, open_graph=lambda *_: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(LoadError, match=message):
        PiperTts.load(context)
