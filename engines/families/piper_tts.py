"""Piper voices: VITS from phonemes to a waveform, one sentence at a time.

Files: `model` (the graph) and `config` (the JSON beside it: symbols, sample rate, scales, speakers). Graph: `input`
int64 (1, n) symbol ids, `input_lengths` int64 (1,), `scales` float32 (3,) noise, length, noise of lengths, and for
voices of several speakers `sid` int64 (1,) -> float32 (1, ..., samples). The graph draws its noise itself, so no seed
can be given and no two runs are the same. Each sentence is scaled to full range, as Piper does.

Offline and streamed requests are one: a sentence's audio leaves as soon as it is ready, while the next are computed.
"""

import unicodedata
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec
import numpy as np

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput, LoadError
from audiocpp.engines.family import NEXT, Background, Completed, LoadContext, Run, Work
from audiocpp.engines.graph import Array, Float32, Graph, GraphOptions
from audiocpp.engines.languages import primary_language
from audiocpp.engines.phonemes import EspeakPhonemizer
from audiocpp.engines.tasks import AudioChunk, OptionValue, TaskRequest
from audiocpp.engines.text.markup import LONGEST_PAUSE_S, Pause
from audiocpp.engines.text.speech import speech_pieces

_PAD, _BEGIN, _END = "_", "^", "$"

_LONGEST_PIECE_CHARS = 180
"""About 11 s of speech. The graph takes some 45 MB for a second of it, so this bounds memory (and the first audio)."""

_SENTENCES_AHEAD = 2
"""Sentences computed or waiting behind the one that is due. The first is computed alone, with all threads."""

_OPTION_RANGES = {"speed": (0.25, 4.0), "noise_scale": (0.0, 2.0), "noise_w": (0.0, 2.0)}
_SHORTEST_AUDIBLE = 1e-8


class _AudioConfig(msgspec.Struct, frozen=True):
    sample_rate: int


class _EspeakConfig(msgspec.Struct, frozen=True):
    voice: str


class _Inference(msgspec.Struct, frozen=True):
    noise_scale: float = 0.667
    length_scale: float = 1.0
    noise_w: float = 0.8


class _LanguageConfig(msgspec.Struct, frozen=True):
    code: str


class VoiceConfig(msgspec.Struct, frozen=True):
    """The part of a voice's `.onnx.json` that is used here."""

    audio: _AudioConfig
    phoneme_id_map: dict[str, list[int]]
    espeak: _EspeakConfig
    inference: _Inference = _Inference()
    phoneme_type: str = "espeak"
    num_speakers: int = 1
    speaker_id_map: dict[str, int] = {}
    default_speaker_id: int = 0
    language: _LanguageConfig | None = None
    dataset: str = ""

    @property
    def language_tag(self) -> str:
        """BCP-47, with a hyphen."""
        return (self.language.code if self.language else self.espeak.voice).replace("_", "-")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A row of the graph: `ids` int64 (n,), `scales` float32 (3,), `speaker` for voices of several."""

    ids: Array
    scales: Float32
    speaker: int | None
    silence_before_s: float


@dataclass(frozen=True, slots=True)
class _Manner:
    """How a request wants to be spoken."""

    scales: Float32
    speaker: int | None


class Phonemizer(Protocol):
    """What gives phonemes: `engines.phonemes.EspeakPhonemizer`, or code points for voices trained on letters."""

    def phonemize(self, text: str) -> str: ...


class _Letters:
    """For voices whose symbols are the letters themselves."""

    def phonemize(self, text: str) -> str:
        return text


class PiperTts:
    """The family and, once loaded, the voice."""

    name: ClassVar[str] = "piper_tts"

    def __init__(self, graph: Graph, config: VoiceConfig, phonemizer: Phonemizer, *, voice: str) -> None:
        self._graph = graph
        self._config = config
        self._phonemizer = phonemizer
        # Voice name -> speaker; the first is the default.
        self._speakers: dict[str, int | None] = {voice: None}
        if config.num_speakers > 1:
            by_default_first = sorted(
                config.speaker_id_map.items(), key=lambda item: item[1] != config.default_speaker_id
            )
            self._speakers = dict(by_default_first)

    @classmethod
    def load(cls, context: LoadContext) -> "PiperTts":
        config = _read_config(context.files["config"])
        phonemizer = EspeakPhonemizer(config.espeak.voice) if config.phoneme_type == "espeak" else _Letters()
        graph = context.open_graph(context.files["model"], GraphOptions())
        return cls(graph, config, phonemizer, voice=config.dataset or context.files["model"].stem)

    @property
    def voices(self) -> Sequence[str]:
        """Names that a request's `voice` may have, the default first."""
        return tuple(self._speakers)

    def warm_up(self) -> None:
        ids = _symbol_ids(self._phonemizer.phonemize("a"), self._config.phoneme_id_map)
        manner = self._manner(TaskRequest(task="tts"))
        self._synthesize([_Sentence(ids, manner.scales, manner.speaker, 0.0)], RunControl())

    def close(self) -> None:
        self._graph.close()

    def run(self, request: TaskRequest) -> Run:
        """Yields one `AudioChunk` per sentence: mono, at the voice's rate, after the silence that a break asks for.

        A break that nothing follows is not heard.

        Raises `InvalidInput` before the first event: `input` (nothing that can be spoken), `voice`, `language`, or the
        name of an option.
        """
        _check_language(request.language, self._config.language_tag)
        sentences = self._sentences(request.text, self._manner(request))
        first = next(sentences, None)
        if first is None:
            raise InvalidInput("there is nothing in the text that can be spoken", param="input")
        yield from self._speak(chain([first], sentences))

    def _manner(self, request: TaskRequest) -> _Manner:
        if request.voice and request.voice not in self._speakers:
            raise InvalidInput(f"unknown voice; this model has: {', '.join(self._speakers)}", param="voice")
        speaker = self._speakers[request.voice or next(iter(self._speakers))]
        own, options = self._config.inference, _checked_options(request.options)
        scales = (
            options.get("noise_scale", own.noise_scale),
            own.length_scale / options.get("speed", 1.0),
            options.get("noise_w", own.noise_w),
        )
        return _Manner(np.array(scales, np.float32), speaker)

    def _sentences(self, text: str, manner: _Manner) -> Iterator[_Sentence]:
        silence_s = 0.0
        for piece in speech_pieces(text, language=self._config.language_tag, max_chars=_LONGEST_PIECE_CHARS):
            if isinstance(piece, Pause):
                silence_s = min(silence_s + piece.seconds, LONGEST_PAUSE_S)
                continue
            ids = _symbol_ids(self._phonemizer.phonemize(piece), self._config.phoneme_id_map)
            if ids.size:
                yield _Sentence(ids, manner.scales, manner.speaker, silence_s)
                silence_s = 0.0

    def _speak(self, sentences: Iterator[_Sentence]) -> Run:
        due: deque[tuple[str, float]] = deque()
        ready: dict[str, Float32] = {}
        tags = map(str, count())
        for sentence in islice(sentences, 1):
            yield self._start(sentence, next(tags), due)
        while due:
            tag, silence_s = due[0]
            while tag not in ready:
                event = yield NEXT
                if isinstance(event, Completed):
                    ready[event.tag] = _audio(event)
            due.popleft()
            for sentence in islice(sentences, 1 + _SENTENCES_AHEAD - len(due)):
                yield self._start(sentence, next(tags), due)
            yield self._chunk(ready.pop(tag), silence_s)

    def _start(self, sentence: _Sentence, tag: str, due: deque[tuple[str, float]]) -> Background:
        due.append((tag, sentence.silence_before_s))
        return Background(Work(self._synthesize, [sentence]), tag)

    def _chunk(self, samples: Float32, silence_before_s: float) -> AudioChunk:
        rate = self._config.audio.sample_rate
        silence = np.zeros(round(silence_before_s * rate), np.float32)
        return AudioChunk(pcm=silence.tobytes() + samples.tobytes(), sample_rate=rate)

    def _synthesize(self, sentences: Sequence[_Sentence], control: RunControl) -> list[Float32]:
        """Waveforms, float32 (samples,), peak 1."""
        waveforms = []
        for sentence in sentences:
            control.check()
            feeds = {
                "input": sentence.ids[np.newaxis],
                "input_lengths": np.array([sentence.ids.size], np.int64),
                "scales": sentence.scales,
            }
            if sentence.speaker is not None:
                feeds["sid"] = np.array([sentence.speaker], np.int64)
            waveforms.append(_full_range(self._graph.run(feeds, control)[0].reshape(-1)))
        return waveforms


def _audio(event: Completed) -> Float32:
    if event.error is not None:
        raise event.error
    samples: Float32 = event.results[0]
    return samples


def _full_range(samples: Float32) -> Float32:
    peak = float(np.abs(samples).max(initial=0.0))
    return samples / np.float32(peak) if peak > _SHORTEST_AUDIBLE else np.zeros_like(samples)


def _symbol_ids(phonemes: str, id_map: Mapping[str, Sequence[int]]) -> Array:
    """The ids of a sentence: begin, then each symbol, all apart by padding, then end. Symbols that the voice does not
    know are left out; empty when it knows none but spaces and marks.
    """
    symbols = [symbol for symbol in unicodedata.normalize("NFD", phonemes) if symbol in id_map]
    if not any(symbol.isalpha() for symbol in symbols):
        return np.empty(0, np.int64)
    ids = [id_ for symbol in (_BEGIN, *symbols) for id_ in (*id_map[symbol], *id_map[_PAD])]
    return np.array([*ids, *id_map[_END]], np.int64)


def _checked_options(options: Mapping[str, OptionValue]) -> dict[str, float]:
    checked = {}
    for name, value in options.items():
        if name not in _OPTION_RANGES:
            raise InvalidInput(f"unknown option {name!r}; accepted: {', '.join(_OPTION_RANGES)}", param=name)
        low, high = _OPTION_RANGES[name]
        if isinstance(value, bool | str) or not low <= value <= high:
            raise InvalidInput(f"{name} is {value!r}; a number from {low:g} to {high:g} is accepted", param=name)
        checked[name] = float(value)
    return checked


def _check_language(language: str, own: str) -> None:
    """A language without a region is met by any region's voice."""
    asked = language.strip().replace("_", "-").lower()
    if asked and asked not in (own.lower(), primary_language(own)):
        raise InvalidInput(f"this voice does not speak that language; accepted: {own}", param="language")


def _read_config(path: Path) -> VoiceConfig:
    try:
        config = msgspec.json.decode(path.read_bytes(), type=VoiceConfig)
    except (OSError, msgspec.DecodeError) as error:
        raise LoadError(f"{path.name} is not the configuration of a Piper voice: {error}") from error
    missing = [symbol for symbol in (_PAD, _BEGIN, _END) if symbol not in config.phoneme_id_map]
    if missing:
        raise LoadError(f"{path.name}: phoneme_id_map lacks {' '.join(missing)}")
    if config.phoneme_type not in ("espeak", "text"):
        raise LoadError(f"{path.name}: phoneme_type {config.phoneme_type!r} is not supported; supported: espeak, text")
    return config
