"""Hama: when each word of a known English text is said in a recording.

Model: https://github.com/hamanlp/hama, release 1.3.13. A CTC network hears phonemes, one of 191 symbols each 20 ms; a
second network reads the text as phonemes of the same kind. Measured on a passage: its phonemes have a mean probability
of 0.85 by the model's own reading, and of 0.71 by that of espeak-ng. The vocabulary has sounds of Korean too, but the
network that hears gives none of them more than 1e-12, so only English is offered.

Graph of the hearing: `waveform` float32 (1, n) at 16 kHz, `waveform_lengths` int64 (1,) -> `log_probs` float32
(1, n // 320 + 1, symbols); frame i is centred on sample 320 i. It answers at most 30 s.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from audiocpp.engines.audio import PcmInput, SampleWindow
from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.ctc_alignment import Bool, CtcAlignment, Int32, LabelSpans
from audiocpp.engines.errors import InvalidInput, LoadError
from audiocpp.engines.families.hama_g2p import HamaG2p, Phonemes
from audiocpp.engines.family import NEXT, Data, End, LoadContext, Run, Work
from audiocpp.engines.graph import Float32, Graph, GraphOptions
from audiocpp.engines.languages import check_language
from audiocpp.engines.tasks import AudioFormat, Segment, TaskRequest, Word
from audiocpp.engines.text.written_words import WrittenWord, written_words

LANGUAGES: Final = ("en",)
MAX_TEXT_CHARS: Final = 500_000
"""More than is said in half a day."""

RATE_HZ: Final = 16_000
HOP_SAMPLES: Final = 320
FRAME_S: Final = HOP_SAMPLES / RATE_HZ

CHUNK_FRAMES: Final = 500
MARGIN_FRAMES: Final = 50
"""10 s are heard at a time, with a second before and after that is not kept. Measured: longer stretches move no word by
more than two frames, and cost more memory."""

_LEAST_SAMPLES: Final = 2 * HOP_SAMPLES
_PEAK: Final = 0.5
_MOST_GAIN: Final = 100.0
"""Each stretch is brought to this peak: a recording of -30 dB halves the confidence otherwise."""

_EARLIER_S: Final = 0.05
_LATER_S: Final = 0.07
"""The network is sure of a sound some time after it begins and before it ends. Measured on two passages against
pocketsphinx's alignment: with these the median error of starts and of ends is below 0.01 s, the mean 0.025 s."""


class HamaForcedAligner:
    """Family `hama_forced_aligner`, task `align`. File roles: `model`, `g2p_encoder`, `g2p_decoder`, `vocabulary`.

    No request options. The words of the answer are those of the text, each as it is written there.
    """

    name: ClassVar[str] = "hama_forced_aligner"

    def __init__(self, hearing: Graph, g2p: HamaG2p) -> None:
        self._hearing = hearing
        self._g2p = g2p
        self._boundary = g2p.phoneme_count
        self._blank = g2p.phoneme_count + 1

    @classmethod
    def load(cls, context: LoadContext) -> "HamaForcedAligner":
        def graph(role: str) -> Graph:
            return context.open_graph(context.files[role], GraphOptions())

        g2p = HamaG2p(graph("g2p_encoder"), graph("g2p_decoder"), context.files["vocabulary"])
        hearing = graph("model")
        symbols = next((output.shape[-1] for output in hearing.outputs if output.name == "log_probs"), None)
        if symbols != g2p.phoneme_count + 2:
            raise LoadError(
                f"{context.files['vocabulary'].name}: {g2p.phoneme_count} phonemes; the model has {symbols} symbols, "
                "two more than phonemes are needed"
            )
        return cls(hearing, g2p)

    def run(self, request: TaskRequest) -> Run:
        """Yields a `Segment` for each sentence, with its words, when all of the recording has been heard.

        Raises `InvalidInput`: `text` (nothing in it can be said, or it is too long, or goes on when the recording has
        ended), `audio` (no speech is heard), `language`.
        """
        if request.task != "align":
            raise InvalidInput(f"task {request.task!r} is not offered; hama_forced_aligner does align", param="task")
        if request.audio is None:
            raise InvalidInput("align needs audio", param="audio")
        language = check_language(request.language, LANGUAGES)
        if len(request.text) > MAX_TEXT_CHARS:
            raise InvalidInput(
                f"text has {len(request.text)} characters; at most {MAX_TEXT_CHARS} are accepted", param="text"
            )
        return self._align(request.text, language, request.audio)

    def warm_up(self) -> None:
        control = RunControl()
        self._read_texts([("a", LANGUAGES[0])], control)
        self._log_probs(np.zeros(RATE_HZ, np.float32), control)

    def close(self) -> None:
        self._hearing.close()
        self._g2p.close()

    def _align(self, text: str, language: str, audio: AudioFormat) -> Run:
        (reading,) = yield Work(self._read_texts, [(text, language)])
        if not len(reading.labels):
            raise InvalidInput("there is no word in the text that can be said", param="text")
        alignment = CtcAlignment(reading.labels, reading.ends_word, blank=self._blank, boundary=self._boundary)
        pcm, stretches, speech = PcmInput(audio, RATE_HZ), _Stretches(), False
        ended = False
        while not ended:
            item = yield NEXT
            if isinstance(item, Data):
                stretches.push(pcm.push(item.data))
            elif ended := isinstance(item, End):
                stretches.push(pcm.finish())
            for stretch in stretches.take(last=ended):
                (heard,) = yield Work(self._hear, [(stretch, alignment)])
                speech = speech or heard
        if not speech:
            raise InvalidInput("there is no speech in the recording", param="audio")
        (spans,) = yield Work(_finished, [alignment])
        if spans is None:
            count, room_s = len(reading.bounds) - 1, pcm.duration_s
            raise InvalidInput(
                f"the text has {count} words, more than a recording of {room_s:.1f} s holds", param="text"
            )
        yield from reading.segments(spans, pcm.duration_s)

    def _read_texts(self, texts: Sequence[tuple[str, str]], control: RunControl) -> list["_Reading"]:
        """Texts with their languages."""
        return [self._read(text, language, control) for text, language in texts]

    def _read(self, text: str, language: str, control: RunControl) -> "_Reading":
        sentences = []
        for words in written_words(text, language):
            control.check()
            sentences.append(words)
        spoken = dict.fromkeys(item for words in sentences for word in words for item in word.spoken)
        return _Reading.of(sentences, self._g2p.read(spoken, control))

    def _hear(self, rows: Sequence[tuple["_Stretch", CtcAlignment]], control: RunControl) -> list[bool]:
        """Moves alignments on by a stretch each; whether speech is heard in it."""
        heard = []
        for stretch, alignment in rows:
            log_probs = self._log_probs(stretch.samples, control)[stretch.frames]
            alignment.advance(log_probs)
            nothing = np.logaddexp(log_probs[:, self._blank], log_probs[:, self._boundary])
            heard.append(bool((nothing < np.log(0.5)).any()))
        return heard

    def _log_probs(self, samples: Float32, control: RunControl) -> Float32:
        """(frames, symbols)."""
        samples = np.pad(samples, (0, max(_LEAST_SAMPLES - len(samples), 0)))
        gain = min(_PEAK / max(float(np.abs(samples).max()), 1e-9), _MOST_GAIN)
        feeds = {
            "waveform": (samples * np.float32(gain))[np.newaxis],
            "waveform_lengths": np.array([len(samples)], np.int64),
        }
        (log_probs,) = self._hearing.run(feeds, control, outputs=["log_probs"])
        frames: Float32 = log_probs[0]
        return frames


def _finished(alignments: Sequence[CtcAlignment], control: RunControl) -> list[LabelSpans | None]:
    control.check()
    return [alignment.finish() for alignment in alignments]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Samples that are heard together, and the frames of them that count."""

    samples: Float32
    frames: slice


class _Stretches:
    """Cuts a recording into stretches: each frame counts in one, with a margin heard on both sides."""

    def __init__(self) -> None:
        self._window = SampleWindow()
        self._next = 0

    def push(self, samples: Float32) -> None:
        self._window.push(samples)

    def take(self, *, last: bool) -> Iterator[_Stretch]:
        """Yields the stretches that are complete, and with `last` what remains: at most a chunk and a margin."""
        while self._window.end >= (self._next + CHUNK_FRAMES + MARGIN_FRAMES) * HOP_SAMPLES:
            yield self._cut((self._next + CHUNK_FRAMES + MARGIN_FRAMES) * HOP_SAMPLES, CHUNK_FRAMES)
        if last and self._window.end > self._next * HOP_SAMPLES:
            yield self._cut(self._window.end, None)

    def _cut(self, end: int, count: int | None) -> _Stretch:
        """Samples up to `end`, of which `count` frames count, or all."""
        start = max(self._next - MARGIN_FRAMES, 0)
        first = self._next - start
        stretch = _Stretch(
            self._window.cut(start * HOP_SAMPLES, end), slice(first, None if count is None else first + count)
        )
        self._next += CHUNK_FRAMES
        self._window.forget((self._next - MARGIN_FRAMES) * HOP_SAMPLES)
        return stretch


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text as phonemes.

    Attributes:
        sentences: its words, but for those that the model cannot read.
        labels: int32 (n,), the phonemes of all words.
        ends_word: bool (n,), after which of them there may be a pause.
        bounds: int (words + 1,), the first label of each word, and n.
    """

    sentences: Sequence[Sequence[WrittenWord]]
    labels: Int32
    ends_word: Bool
    bounds: npt.NDArray[np.int_]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[WrittenWord]], phonemes: Mapping[str, Phonemes]) -> "_Reading":
        """`phonemes` of each spoken word."""
        readable = [[word for word in words if any(phonemes[item] for item in word.spoken)] for words in sentences]
        readable = [words for words in readable if words]
        parts = [[phonemes[item] for item in word.spoken if phonemes[item]] for words in readable for word in words]
        spoken = [part for word in parts for part in word]
        ends = np.zeros(sum(map(len, spoken)), np.bool_)
        ends[np.cumsum([len(part) for part in spoken], dtype=np.int64) - 1] = True
        bounds = np.cumsum([0, *(sum(map(len, word)) for word in parts)])
        return cls(readable, np.fromiter(chain.from_iterable(spoken), np.int32), ends, bounds)

    def segments(self, spans: LabelSpans, duration_s: float) -> Iterator[Segment]:
        """A segment for each sentence; no time lies beyond `duration_s`."""
        words = self._words(spans, duration_s)
        for index, sentence in enumerate(self.sentences):
            placed = list(islice(words, len(sentence)))
            yield Segment(
                index=index,
                start=placed[0].start,
                end=placed[-1].end,
                text=" ".join(word.word for word in placed),
                words=placed,
            )

    def _words(self, spans: LabelSpans, duration_s: float) -> Iterator[Word]:
        first, last = self.bounds[:-1], self.bounds[1:] - 1
        heard_from, heard_to = spans.starts[first] * FRAME_S, spans.ends[last] * FRAME_S
        starts = np.maximum(heard_from - _EARLIER_S, np.append(0, heard_to[:-1]))
        ends = np.minimum(heard_to + _LATER_S, np.append(starts[1:], duration_s))
        confidences = np.add.reduceat(spans.posteriors, first) / np.add.reduceat(spans.ends - spans.starts, first)
        texts = (word.text for words in self.sentences for word in words)
        for text, start, end, confidence in zip(texts, starts, ends, confidences, strict=True):
            yield Word(word=text, start=_rounded(start), end=_rounded(end), confidence=_rounded(confidence))


def _rounded(value: float) -> float:
    """To a thousandth, finer than anything here is known."""
    return round(float(value), 3)
