"""Kokoro's runs over a fake graph: what it is fed, which style a voice gives, what is refused."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput, LoadError, RunCancelled
from audiocpp.engines.families.kokoro_tts import RATE_HZ, KokoroTts
from audiocpp.engines.family import LoadContext
from audiocpp.engines.graph import Array, Graph, GraphOptions, GraphPlacement, TensorSpec
from audiocpp.engines.inline import run_inline
from audiocpp.engines.tasks import AudioChunk, TaskRequest

STYLES = (510, 256)
SYMBOLS = {symbol: index for index, symbol in enumerate(" .,!?abcdefghijklmnopqstuvwyzɹ", start=1)}
VOICES = {"af_heart": 1.0, "af_bella": 2.0, "bf_emma": 4.0}


class CountingGraph:
    """Answers with ten samples for each id, of the value of the style's first number over ten."""

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
        return [np.full(10 * feeds["tokens"].size, feeds["style"][0, 0] / 10, np.float32)]

    def close(self) -> None:
        self.closed = True


class Spelling:
    """Text for phonemes, and a note of whose they are."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def phonemize(self, text: str) -> str:
        self.asked.append(text)
        return text


class Model:
    """The family over fakes. Each voice's styles are its number, but for the second column: the row."""

    def __init__(self) -> None:
        self.graph = CountingGraph()
        self.phonemizers = {language: Spelling() for language in ("en-US", "en-GB")}
        voices = {name: np.full(STYLES, value, np.float32) for name, value in VOICES.items()}
        for styles in voices.values():
            styles[:, 1] = np.arange(STYLES[0])
        self.kokoro = KokoroTts(self.graph, SYMBOLS, voices, self.phonemizers)

    def speak(self, text: str, **request: Any) -> list[AudioChunk]:
        chunks = list(run_inline(self.kokoro.run(TaskRequest(task="tts", text=text, **request))))
        assert all(isinstance(chunk, AudioChunk) for chunk in chunks)
        return chunks  # type: ignore[return-value]

    @property
    def spoken(self) -> list[str]:
        """The symbols of each run of the graph."""
        by_id = {id_: symbol for symbol, id_ in SYMBOLS.items()}
        return ["".join(by_id[id_] for id_ in feeds["tokens"][0, 1:-1].tolist()) for feeds in self.graph.feeds]


@pytest.fixture
def model() -> Model:
    return Model()


def test_ids_stand_between_zeros_and_the_style_is_that_of_their_number(model: Model) -> None:
    model.speak("abc.")
    (feeds,) = model.graph.feeds
    assert feeds["tokens"].tolist() == [[0, *(SYMBOLS[symbol] for symbol in "abc."), 0]]
    assert feeds["tokens"].dtype == np.int64
    assert feeds["style"].shape == (1, 256)
    assert feeds["style"][0, :2].tolist() == [VOICES["af_heart"], 3.0]
    assert feeds["style"].dtype == feeds["speed"].dtype == np.float32
    assert feeds["speed"].tolist() == [1.0]


def test_audio_is_mono_at_24_khz_within_full_range(model: Model) -> None:
    (chunk,) = model.speak("abc")
    assert (chunk.sample_rate, chunk.channels) == (RATE_HZ, 1)
    np.testing.assert_allclose(np.frombuffer(chunk.pcm, "<f4"), 0.1)


def test_symbols_are_those_of_the_model_and_others_are_left_out(model: Model) -> None:
    model.speak("raxÖc")
    assert model.spoken == ["ɹakc"]


@pytest.mark.parametrize(
    ("voice", "style"),
    [
        ("", 1.0),
        ("af_bella", 2.0),
        ("af_heart+af_bella", 1.5),
        ("af_heart(2)+af_bella(1)", 4 / 3),
        ("af_heart(1)+bf_emma(3)", 3.25),
    ],
)
def test_a_mixed_voice_has_the_mean_style(model: Model, voice: str, style: float) -> None:
    model.speak("ab", voice=voice)
    assert model.graph.feeds[0]["style"][0, 0] == pytest.approx(style)
    assert model.graph.feeds[0]["style"][0, 1] == pytest.approx(1.0)
    assert model.graph.feeds[0]["style"].dtype == np.float32


@pytest.mark.parametrize(
    ("voice", "language", "phonemes"),
    [
        ("", "", "en-US"),
        ("bf_emma", "", "en-GB"),
        ("bf_emma", "en", "en-GB"),
        ("bf_emma+af_heart", "", "en-GB"),
        ("af_heart", "en", "en-US"),
        ("af_heart", "en-GB", "en-GB"),
        ("bf_emma", "EN_us", "en-US"),
    ],
)
def test_the_language_is_that_of_the_request_or_of_the_voice(
    model: Model, voice: str, language: str, phonemes: str
) -> None:
    model.speak("ab", voice=voice, language=language)
    assert [name for name, phonemizer in model.phonemizers.items() if phonemizer.asked] == [phonemes]


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_long_text_is_all_spoken_in_runs_of_bounded_length(model: Model, speed: float) -> None:
    words = [f"{first}{second}" for first in "abcdefgh" for second in "ijklmnopqstuvwyz"]
    model.speak(" ".join(words), options={"speed": speed})
    assert " ".join(model.spoken).split() == words
    assert {feeds["speed"][0] for feeds in model.graph.feeds} == {np.float32(speed)}
    assert all(len(spoken) <= 200 * min(speed, 1.0) for spoken in model.spoken)


def test_a_text_that_grows_as_phonemes_is_cut_again(model: Model) -> None:
    model.phonemizers["en-US"].phonemize = lambda text: " ".join("abcdefghij" for _ in text)  # type: ignore[method-assign]
    model.speak("x" * 100)
    assert "".join(model.spoken).replace(" ", "") == "abcdefghij" * 100
    assert all(len(spoken) <= 200 for spoken in model.spoken)


def test_each_sentence_is_a_chunk_and_a_break_is_silence(model: Model) -> None:
    first, second = model.speak('abc. <break time="250ms"/> defgh.')
    assert len(first.pcm) == 4 * 10 * len("0abc.0")
    samples = np.frombuffer(second.pcm, "<f4")
    assert not samples[: RATE_HZ // 4].any()
    assert len(samples) == RATE_HZ // 4 + 10 * len("0defgh.0")


@pytest.mark.parametrize(
    ("request_fields", "param"),
    [
        ({"options": {"speed": 0.4}}, "speed"),
        ({"options": {"speed": 2.1}}, "speed"),
        ({"options": {"speed": "1"}}, "speed"),
        ({"options": {"noise_scale": 1.0}}, "noise_scale"),
        ({"voice": "nobody"}, "voice"),
        ({"voice": "af_heart+nobody"}, "voice"),
        ({"voice": "af_heart(0)+af_bella"}, "voice"),
        ({"voice": "../../etc/passwd"}, "voice"),
        ({"language": "de"}, "language"),
        ({"language": "ja"}, "language"),
        ({"text": ""}, "input"),
        ({"text": "?! 👍 ..."}, "input"),
        ({"text": "ÖÄÜ"}, "input"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_before_any_audio(
    model: Model, request_fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        next(run_inline(model.kokoro.run(TaskRequest(task="tts", **{"text": "hello", **request_fields}))))
    assert refused.value.param == param


def test_an_unknown_voice_is_answered_with_some_that_are_known(model: Model) -> None:
    with pytest.raises(InvalidInput, match="some of the 3 are: af_heart, af_bella"):
        model.speak("a", voice="nobody")


def test_the_default_voice_comes_first(model: Model) -> None:
    assert model.kokoro.voices == ("af_heart", "af_bella", "bf_emma")


def test_a_cancelled_sentence_does_not_reach_the_graph(model: Model) -> None:
    background = next(model.kokoro.run(TaskRequest(task="tts", text="abc")))
    control = RunControl()
    control.cancel()
    with pytest.raises(RunCancelled):
        background.work.function(background.work.rows, control)  # type: ignore[union-attr]
    assert model.graph.feeds == []


def test_warming_up_runs_the_graph_and_closing_closes_it(model: Model) -> None:
    model.kokoro.warm_up()
    assert model.spoken == ["a"]
    model.kokoro.close()
    assert model.graph.closed


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "vocab.json").write_text(json.dumps({"vocab": SYMBOLS}))
    (tmp_path / "af_heart.bin").write_bytes(np.full(STYLES, 0.5, "<f4").tobytes())
    return {
        "model": tmp_path / "kokoro.onnx",
        "vocabulary": tmp_path / "vocab.json",
        "voice_af_heart": tmp_path / "af_heart.bin",
    }


def load(files: Mapping[str, Path], graph: Graph | None = None) -> KokoroTts:
    def open_graph(path: Path, options: GraphOptions) -> Graph:
        assert options.memory_arena
        return graph or CountingGraph()

    return KokoroTts.load(LoadContext(files=files, open_graph=open_graph))


def test_voices_are_the_files_of_their_roles(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "bm_lewis.bin").write_bytes(np.zeros(STYLES, "<f4").tobytes())
    assert load({**files, "voice_bm_lewis": tmp_path / "bm_lewis.bin"}).voices == ("af_heart", "bm_lewis")


def test_a_loaded_model_speaks_with_the_phonemes_of_espeak(files: dict[str, Path]) -> None:
    graph = CountingGraph()
    list(run_inline(load(files, graph).run(TaskRequest(task="tts", text="red"))))
    assert graph.feeds[0]["tokens"][0, 1] == SYMBOLS["ɹ"]
    assert graph.feeds[0]["style"][0, 0] == 0.5


@pytest.mark.parametrize(
    ("role", "content", "message"),
    [
        ("vocabulary", b"{", "not a vocabulary"),
        ("vocabulary", b"[]", "not a vocabulary"),
        ("vocabulary", b'{"vocab": {"a": "b"}}', "not a vocabulary"),
        ("voice_af_heart", b"", "not a voice"),
        ("voice_af_heart", bytes(1000), "not a voice"),
    ],
)
def test_a_damaged_file_is_a_load_error(files: dict[str, Path], role: str, content: bytes, message: str) -> None:
    files[role].write_bytes(content)
    with pytest.raises(LoadError, match=message):
        load(files)


def test_a_model_without_its_default_voice_is_a_load_error(files: dict[str, Path]) -> None:
    files["voice_bf_emma"] = files.pop("voice_af_heart")
    with pytest.raises(LoadError, match="af_heart is missing"):
        load(files)
