"""Kokoro: StyleTTS 2 from phonemes to a waveform, one sentence at a time; many voices in one model.

Files: `model` (the graph), `vocabulary` (JSON, symbol to id) and `voice_NAME` for each voice: float32 little-endian,
510 rows of 256, row n - 1 being the style of a text of n symbols. Graph: `tokens` int64 (1, n + 2), the ids between two
zeros; `style` float32 (1, 256); `speed` float32 (1,) -> float32 (samples,) at 24 kHz.

Voices are mixed by mixing their styles. English only: the symbols are espeak-ng's, and the other languages of the
voices have not been heard by anything here.
"""

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
from audiocpp.engines.phonemes import EspeakPhonemizer, Phonemizer, known_parts
from audiocpp.engines.speech_synthesis import checked_options, find_sentences, speak
from audiocpp.engines.tasks import TaskRequest
from audiocpp.engines.voice_mix import parse_voice_mix

RATE_HZ = 24_000
DEFAULT_VOICE = "af_heart"

_LONGEST_PIECE_CHARS = 180
_MOST_SYMBOLS = 200
"""Of one graph run at the usual speed or faster: about 12 s of speech. The graph takes some 28 MB for a second of it,
so this bounds memory, and the first audio. The model itself takes 510."""

_SENTENCES_AHEAD = 1
_STYLE_SHAPE = (510, 256)
_OPTION_RANGES = {"speed": (0.5, 2.0)}

_AMERICAN, _BRITISH = "en-US", "en-GB"
_ESPEAK_VOICES = {_AMERICAN: "en-us", _BRITISH: "en"}
_BRITISH_VOICES = "b"
"""Names begin with the language of the voice: `af_heart` is American, `bf_emma` British."""

_AS_KOKORO = str.maketrans({"r": "ɹ", "x": "k", "ɬ": "l", "ʲ": "j"})
"""espeak-ng's symbols that the model was not trained on -> the nearest that it was."""


class Vocabulary(msgspec.Struct, frozen=True):
    vocab: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the graph: `ids` int64 (n,), `style` float32 (256,)."""

    ids: Array
    style: Float32
    speed: float


class KokoroTts:
    """The family and, once loaded, the model with its voices."""

    name: ClassVar[str] = "kokoro_tts"

    def __init__(
        self,
        graph: Graph,
        symbols: Mapping[str, int],
        voices: Mapping[str, Float32],
        phonemizers: Mapping[str, Phonemizer],
    ) -> None:
        self._graph = graph
        self._symbols = symbols
        self._voices = voices
        self._phonemizers = phonemizers

    @classmethod
    def load(cls, context: LoadContext) -> "KokoroTts":
        files = context.files
        symbols = _read_vocabulary(files["vocabulary"])
        voices = {role.removeprefix("voice_"): _read_voice(files[role]) for role in files if role.startswith("voice_")}
        if DEFAULT_VOICE not in voices:
            raise LoadError(f"the voice {DEFAULT_VOICE} is missing")
        phonemizers = {language: EspeakPhonemizer(name) for language, name in _ESPEAK_VOICES.items()}
        # Without an arena the graph's tensors, of another size at each run, take five times the memory.
        graph = context.open_graph(files["model"], GraphOptions(memory_arena=True))
        return cls(graph, symbols, voices, phonemizers)

    @property
    def voices(self) -> Sequence[str]:
        """Names that a request's `voice` may have or mix, the default first."""
        return (DEFAULT_VOICE, *sorted(self._voices.keys() - {DEFAULT_VOICE}))

    def warm_up(self) -> None:
        rows = self._rows_of("a", self._phonemizers[_AMERICAN], {DEFAULT_VOICE: 1.0}, 1.0)
        self._synthesize(list(rows), RunControl())

    def close(self) -> None:
        self._graph.close()

    def run(self, request: TaskRequest) -> Run:
        """Yields one `AudioChunk` per sentence: mono at 24 kHz, after the silence that a break asks for.

        Raises `InvalidInput` before the first event: `input` (nothing that can be spoken), `voice`, `language`, or the
        name of an option.
        """
        mix = self._mix(request.voice or DEFAULT_VOICE)
        language = _language(request.language, next(iter(mix)))
        rows_of = partial(
            self._rows_of,
            phonemizer=self._phonemizers[language],
            mix=mix,
            speed=checked_options(request.options, _OPTION_RANGES).get("speed", 1.0),
        )
        sentences = find_sentences(request.text, language=language, max_chars=_LONGEST_PIECE_CHARS, rows_of=rows_of)
        yield from speak(sentences, self._synthesize, sample_rate=RATE_HZ, sentences_ahead=_SENTENCES_AHEAD)

    def _mix(self, voice: str) -> dict[str, float]:
        try:
            mix = parse_voice_mix(voice)
        except ValueError as error:
            raise InvalidInput(f"voice: {error}", param="voice") from error
        if not mix.keys() <= self._voices.keys():
            some = ", ".join(self.voices[:8])
            raise InvalidInput(f"unknown voice; some of the {len(self._voices)} are: {some}", param="voice")
        return mix

    def _style(self, mix: Mapping[str, float], symbols: int) -> Float32:
        """Of a text of so many symbols, float32 (256,): the mean of the voices by their shares."""
        styles = [self._voices[name][symbols - 1] for name in mix]
        return np.average(styles, axis=0, weights=list(mix.values())).astype(np.float32)

    def _rows_of(self, piece: str, phonemizer: Phonemizer, mix: Mapping[str, float], speed: float) -> Iterator[_Row]:
        """A slow speaker gets shorter rows, so that they take no longer."""
        phonemes = phonemizer.phonemize(piece).translate(_AS_KOKORO)
        for part in known_parts(phonemes, self._symbols, round(_MOST_SYMBOLS * min(speed, 1.0))):
            ids = np.array([self._symbols[symbol] for symbol in part], np.int64)
            yield _Row(ids, self._style(mix, len(part)), speed)

    def _synthesize(self, rows: Sequence[_Row], control: RunControl) -> list[Float32]:
        """Waveforms, float32 (samples,)."""
        waveforms = []
        for row in rows:
            control.check()
            feeds = {
                "tokens": np.pad(row.ids, 1)[np.newaxis],
                "style": row.style[np.newaxis],
                "speed": np.array([row.speed], np.float32),
            }
            waveforms.append(np.clip(self._graph.run(feeds, control)[0].reshape(-1), -1.0, 1.0))
        return waveforms


def _language(asked: str, voice: str) -> str:
    """Of the request, else that of the voice, for which a tag without a region leaves the choice."""
    tag = asked.strip().replace("_", "-").lower()
    for language in _ESPEAK_VOICES:
        if tag == language.lower():
            return language
    if tag in ("", "en"):
        return _BRITISH if voice.startswith(_BRITISH_VOICES) else _AMERICAN
    accepted = ", ".join(_ESPEAK_VOICES)
    raise InvalidInput(f"language {asked!r} is not spoken here; accepted: en, {accepted}", param="language")


def _read_vocabulary(path: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Vocabulary).vocab
    except (OSError, msgspec.DecodeError) as error:
        raise LoadError(f"{path.name} is not a vocabulary of Kokoro: {error}") from error


def _read_voice(path: Path) -> Float32:
    """Float32 (510, 256), mapped: of the many voices only the rows that are spoken with come into memory."""
    try:
        return np.memmap(path, "<f4", "r", shape=_STYLE_SHAPE)
    except (OSError, ValueError) as error:
        raise LoadError(f"{path.name} is not a voice of Kokoro: {error}") from error
