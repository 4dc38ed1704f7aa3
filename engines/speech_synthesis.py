"""Speaks a text sentence by sentence: what the families that synthesize speech share.

Offline and streamed requests are one: a sentence's audio leaves as soon as it is ready, while the next are computed.
Nothing here knows of phonemes or graphs; a family says what it computes for a piece of text, and how.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Generic, TypeVar

import numpy as np

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import NEXT, Background, Completed, Run, Work
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioChunk, OptionValue
from audiocpp.engines.text.markup import LONGEST_PAUSE_S, Pause
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
) -> Iterator[Sentence[Row]]:
    """Yields what `rows_of` makes of the pieces of `text`, which may be nothing.

    Breaks in a row are one silence of at most `LONGEST_PAUSE_S`; one that nothing follows is not heard.
    """
    silence_s = 0.0
    for piece in speech_pieces(text, language=language, max_chars=max_chars):
        if isinstance(piece, Pause):
            silence_s = min(silence_s + piece.seconds, LONGEST_PAUSE_S)
            continue
        for row in rows_of(piece):
            yield Sentence(row, silence_s)
            silence_s = 0.0


def speak(
    sentences: Iterator[Sentence[Row]], synthesize: Synthesize[Row], *, sample_rate: int, sentences_ahead: int
) -> Run:
    """Yields one mono `AudioChunk` for each sentence, in order.

    The first sentence is computed alone, with all threads; behind the one that is due, `sentences_ahead` are computed
    or wait. Raises `InvalidInput` (`input`) before the first event when there are no sentences.
    """
    first = next(sentences, None)
    if first is None:
        raise InvalidInput("there is nothing in the text that can be spoken", param="input")
    yield from _Speech(chain([first], sentences), synthesize, sample_rate, sentences_ahead).run()


class _Speech(Generic[Row]):
    """One text being spoken. `due` are the sentences that are started, in order: tag and silence before it."""

    def __init__(
        self, sentences: Iterator[Sentence[Row]], synthesize: Synthesize[Row], sample_rate: int, sentences_ahead: int
    ) -> None:
        self._sentences = sentences
        self._synthesize = synthesize
        self._sample_rate = sample_rate
        self._ahead = sentences_ahead
        self._due: deque[tuple[str, float]] = deque()
        self._tags = map(str, count())

    def run(self) -> Run:
        ready: dict[str, Float32] = {}
        yield from self._start(1)
        while self._due:
            tag, silence_s = self._due[0]
            while tag not in ready:
                event = yield NEXT
                if isinstance(event, Completed):
                    ready[event.tag] = _waveform(event)
            self._due.popleft()
            yield self._chunk(ready.pop(tag), silence_s)
            yield from self._start(1 + self._ahead - len(self._due))

    def _start(self, number: int) -> Run:
        for sentence in islice(self._sentences, number):
            tag = next(self._tags)
            self._due.append((tag, sentence.silence_before_s))
            yield Background(Work(self._synthesize, [sentence.row]), tag)

    def _chunk(self, samples: Float32, silence_before_s: float) -> AudioChunk:
        silence = np.zeros(round(silence_before_s * self._sample_rate), np.float32)
        return AudioChunk(pcm=silence.tobytes() + samples.tobytes(), sample_rate=self._sample_rate)


def _waveform(event: Completed) -> Float32:
    if event.error is not None:
        raise event.error
    samples: Float32 = event.results[0]
    return samples


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
