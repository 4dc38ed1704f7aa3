"""Speaks a text sentence by sentence: what the families that synthesize speech share.

Offline and streamed requests are one: a sentence's audio leaves as soon as it is ready, while the next are computed.
Nothing here knows of phonemes or graphs; a family says what it computes for a piece of text, and how.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

import numpy as np

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import NEXT, Background, Completed, Run, Work
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioChunk, OptionValue
from audiocpp.engines.text.markup import LONGEST_PAUSE_S, Pause, text_portions
from audiocpp.engines.text.speech import speech_pieces

Row = TypeVar("Row")

Synthesize = Callable[[Sequence[Row], RunControl], Sequence[Float32]]
"""Waveforms, float32 (samples,), one for each row."""


@dataclass(frozen=True, slots=True)
class Sentence(Generic[Row]):
    """What a family computes for one sentence, or a part of a long one, and the silence before it."""

    row: Row
    silence_before_s: float


def find_sentences(
    text: str, *, language: str, max_chars: int, rows_of: Callable[[str], Iterable[Row]]
) -> Iterator[Sentence[Row] | None]:
    """Yields what `rows_of` makes of the pieces of `text`; None for a portion of it in which there is nothing.

    So each step takes a bounded time, however long the text and whatever is in it. Breaks in a row are one silence of
    at most `LONGEST_PAUSE_S`; one that nothing follows is not heard.
    """
    silence_s = 0.0
    for portion in text_portions(text):
        found = False
        for piece in speech_pieces(portion, language=language, max_chars=max_chars):
            if isinstance(piece, Pause):
                silence_s = min(silence_s + piece.seconds, LONGEST_PAUSE_S)
                continue
            for row in rows_of(piece):
                yield Sentence(row, silence_s)
                silence_s, found = 0.0, True
        if not found:
            yield None


def speak(
    sentences: Iterator[Sentence[Row] | None], synthesize: Synthesize[Row], *, sample_rate: int, sentences_ahead: int
) -> Run:
    """Yields one mono `AudioChunk` for each sentence, in order.

    Sentences are found and computed on the compute threads: of a long or hostile text nothing is done on the thread
    that drives all runs. The first sentence is computed alone, with all threads; behind the one that is due,
    `sentences_ahead` are computed or wait. Raises `InvalidInput` (`input`) before the first event when there are no
    sentences.
    """
    yield from _Speech(sentences, synthesize, sample_rate, sentences_ahead).run()


class _Found(Enum):
    NOTHING_YET = auto()
    NOTHING_MORE = auto()


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A sentence's audio. `number` counts the sentences of the text, from 0."""

    number: int
    audio: AudioChunk


class _Speech(Generic[Row]):
    """One text being spoken. The run starts computations, one a sentence, and puts what they give in order."""

    def __init__(
        self,
        sentences: Iterator[Sentence[Row] | None],
        synthesize: Synthesize[Row],
        sample_rate: int,
        sentences_ahead: int,
    ) -> None:
        self._sentences = sentences
        self._synthesize = synthesize
        self._sample_rate = sample_rate
        self._ahead = sentences_ahead
        # Of the computations, which share the text:
        self._finding = threading.Lock()
        self._found = 0
        # Of the run:
        self._ready: dict[int, AudioChunk] = {}
        self._computing = 0
        self._left = 0
        self._text_ended = False

    def run(self) -> Run:
        while True:
            yield from self._start()
            if self._left in self._ready:
                yield self._ready.pop(self._left)
                self._left += 1
            elif self._computing:
                self._take((yield NEXT))
            else:
                break
        if not self._left:
            raise InvalidInput("there is nothing in the text that can be spoken", param="input")

    def _start(self) -> Run:
        wanted = 1 + self._ahead if self._left else 1
        while not self._text_ended and self._computing + len(self._ready) < wanted:
            self._computing += 1
            yield Background(Work(self._speak_next, [None]), tag="sentence")

    def _take(self, event: object) -> None:
        if not isinstance(event, Completed):
            return
        self._computing -= 1
        if event.error is not None:
            raise event.error
        match event.results[0]:
            case _Spoken(number, audio):
                self._ready[number] = audio
            case _Found.NOTHING_MORE:
                self._text_ended = True

    # On a compute thread.

    def _speak_next(self, rows: Sequence[None], control: RunControl) -> list[_Spoken | _Found]:
        """Finds the next sentence and computes it. One job, so that it waits for a compute thread only once."""
        control.check()
        del rows  # the text itself is what is worked on
        with self._finding:
            sentence = next(self._sentences, _Found.NOTHING_MORE)
            number = self._found
            if isinstance(sentence, Sentence):
                self._found += 1
        if not isinstance(sentence, Sentence):
            return [sentence or _Found.NOTHING_YET]
        (samples,) = self._synthesize([sentence.row], control)
        return [_Spoken(number, self._chunk(samples, sentence.silence_before_s))]

    def _chunk(self, samples: Float32, silence_before_s: float) -> AudioChunk:
        silence = np.zeros(round(silence_before_s * self._sample_rate), np.float32)
        return AudioChunk(pcm=silence.tobytes() + samples.tobytes(), sample_rate=self._sample_rate)


def checked_options(options: Mapping[str, OptionValue], ranges: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The options as numbers within their inclusive `ranges`. Raises `InvalidInput` with the option's name."""
    checked = {}
    for name, value in options.items():
        if name not in ranges:
            raise InvalidInput(f"unknown option {name!r}; accepted: {', '.join(ranges)}", param=name)
        low, high = ranges[name]
        if isinstance(value, bool | str) or not low <= value <= high:
            raise InvalidInput(f"{name} is {value!r}; a number from {low:g} to {high:g} is accepted", param=name)
        checked[name] = float(value)
    return checked
