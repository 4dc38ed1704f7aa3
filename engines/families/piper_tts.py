"""Piper voices: VITS from phonemes to a waveform, one sentence at a time.

Files: `model` (the graph) and `config` (the JSON beside it: symbols, sample rate, scales, speakers). Graph: `input`
int64 (1, n) symbol ids, `input_lengths` int64 (1,), `scales` float32 (3,) noise, length, noise of lengths, and for
voices of several speakers `sid` int64 (1,) -> float32 (1, ..., samples). The graph draws its noise itself, so no seed
can be given and no two runs are the same. Each sentence is scaled to full range, as Piper does.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput, LoadError
from audiocpp.engines.family import LoadContext, Run
from audiocpp.engines.graph import Array, Float32, Graph, GraphOptions
from audiocpp.engines.languages import primary_language
from audiocpp.engines.phonemes import EspeakPhonemizer, Phonemizer, known_parts
from audiocpp.engines.speech_synthesis import checked_options, find_sentences, speak
from audiocpp.engines.tasks import TaskRequest

_PAD, _BEGIN, _END = "_", "^", "$"

_LONGEST_PIECE_CHARS = 180
_MOST_SYMBOLS = 200
"""Of one graph run at the usual speed or faster: about 11 s of speech. The graph takes some 45 MB for a second of it,
so this bounds memory, and the first audio."""

_SENTENCES_AHEAD = 2

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
class _Manner:
    """How a request wants to be spoken: `scales` float32 (3,), `speaker` for voices of several."""

    scales: Float32
    speaker: int | None

    @property
    def most_symbols(self) -> int:
        """Of a row. What is spoken slowly, or with sounds of very uneven length, takes longer."""
        _, length, unevenness = self.scales.tolist()
        return max(int(_MOST_SYMBOLS / (max(length, 1.0) * max(unevenness, 1.0))), 1)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the graph: `ids` int64 (n,)."""

    ids: Array
    manner: _Manner


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
        rows = self._rows_of("a", self._manner(TaskRequest(task="tts")))
        self._synthesize(list(rows), RunControl())

    def close(self) -> None:
        self._graph.close()

    def run(self, request: TaskRequest) -> Run:
        """Yields one `AudioChunk` per sentence: mono, at the voice's rate, after the silence that a break asks for.

        A break that nothing follows is not heard.

        Raises `InvalidInput` before the first event: `input` (nothing that can be spoken), `voice`, `language`, or the
        name of an option.
        """
        language = self._config.language_tag
        _check_language(request.language, language)
        rows_of = partial(self._rows_of, manner=self._manner(request))
        sentences = find_sentences(request.text, language=language, max_chars=_LONGEST_PIECE_CHARS, rows_of=rows_of)
        rate = self._config.audio.sample_rate
        yield from speak(sentences, self._synthesize, sample_rate=rate, sentences_ahead=_SENTENCES_AHEAD)

    def _manner(self, request: TaskRequest) -> _Manner:
        if request.voice and request.voice not in self._speakers:
            raise InvalidInput(f"unknown voice; this model has: {', '.join(self._speakers)}", param="voice")
        speaker = self._speakers[request.voice or next(iter(self._speakers))]
        own, options = self._config.inference, checked_options(request.options, _OPTION_RANGES)
        scales = (
            options.get("noise_scale", own.noise_scale),
            own.length_scale / options.get("speed", 1.0),
            options.get("noise_w", own.noise_w),
        )
        return _Manner(np.array(scales, np.float32), speaker)

    def _rows_of(self, piece: str, manner: _Manner) -> Iterator[_Row]:
        phonemes = unicodedata.normalize("NFD", self._phonemizer.phonemize(piece))
        for part in known_parts(phonemes, self._config.phoneme_id_map, manner.most_symbols):
            yield _Row(_symbol_ids(part, self._config.phoneme_id_map), manner)

    def _synthesize(self, rows: Sequence[_Row], control: RunControl) -> list[Float32]:
        """Waveforms, float32 (samples,), peak 1."""
        waveforms = []
        for row in rows:
            control.check()
            feeds = {
                "input": row.ids[np.newaxis],
                "input_lengths": np.array([row.ids.size], np.int64),
                "scales": row.manner.scales,
            }
            if row.manner.speaker is not None:
                feeds["sid"] = np.array([row.manner.speaker], np.int64)
            waveforms.append(_full_range(self._graph.run(feeds, control)[0].reshape(-1)))
        return waveforms


def _full_range(samples: Float32) -> Float32:
    peak = float(np.abs(samples).max(initial=0.0))
    return samples / np.float32(peak) if peak > _SHORTEST_AUDIBLE else np.zeros_like(samples)


def _symbol_ids(symbols: str, id_map: Mapping[str, Sequence[int]]) -> Array:
    """The ids of a sentence: begin, then each symbol, all apart by padding, then end."""
    ids = [id_ for symbol in (_BEGIN, *symbols) for id_ in (*id_map[symbol], *id_map[_PAD])]
    return np.array([*ids, *id_map[_END]], np.int64)


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
