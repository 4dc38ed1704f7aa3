"""Greedy decoding of several utterances at once with Moonshine's encoder and merged decoder.

The activations of the graphs are quantised per tensor, so the rows of a batch share a scale: near a tie a row may
come out otherwise than alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import LoadError
from audiocpp.engines.graph import Array, Float32, Graph
from audiocpp.engines.utterances import Tokens, Utterance
from audiocpp.engines.voice_activity import SAMPLE_RATE_HZ

Int64 = npt.NDArray[np.int64]

_START: Final = 1
_END: Final = 2

_TOKENS_PER_S: Final = 6.5
"""The model card's limit on tokens a second; a decoder that gives more is looping."""

_MIN_NEW_TOKENS: Final = 6
_MIN_SAMPLES: Final = 1600
"""Shorter audio is filled up with silence: the encoder's convolutions need about 60 ms to give one frame."""


@dataclass(slots=True)
class _Row:
    prefix: Tokens
    limit: int
    tokens: list[int] = field(default_factory=list)
    done: bool = False

    def next_input(self, predicted: int) -> int:
        """Takes the prediction for the next place, or what is already known to stand there."""
        place = len(self.tokens)
        token = self.prefix[place] if place < len(self.prefix) else predicted
        if token == _END:
            self.done = True
            return token
        self.tokens.append(token)
        if place >= len(self.prefix):
            self._stop_loops()
        return token

    @property
    def new_tokens(self) -> Tokens:
        return tuple(self.tokens[len(self.prefix) :])

    def _stop_loops(self) -> None:
        repeated = _repetition(self.tokens[len(self.prefix) :])
        if repeated:
            del self.tokens[-repeated:]
        self.done = bool(repeated) or len(self.tokens) >= self.limit


class MoonshineDecoding:
    """Owns both graphs. `decode` may be called from several threads at once."""

    def __init__(self, encoder: Graph, decoder: Graph) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._own_cache = [item.name for item in decoder.inputs if ".decoder." in item.name]
        self._cross_cache = [item.name for item in decoder.inputs if ".encoder." in item.name]
        shapes = [item.shape for item in decoder.inputs if item.name in self._own_cache]
        if not shapes or len(self._own_cache) != len(self._cross_cache):
            raise LoadError("the decoder graph is not a merged decoder with a cache")
        self._heads, self._head_size = shapes[0][1], shapes[0][3]

    @property
    def vocabulary_size(self) -> int | None:
        return next((item.shape[-1] for item in self._decoder.outputs if item.name == "logits"), None)

    def decode(self, rows: Sequence[Utterance], control: RunControl) -> list[Tokens]:
        """See `UtteranceDecoder.decode`. Rows of like length are decoded best together."""
        batch = [_Row(row.prefix, _limit(row)) for row in rows]
        cache = _Cache(*self._encode(rows, control))
        active = batch
        known = min(len(row.prefix) for row in rows)
        for row in batch:
            row.tokens += row.prefix[:known]
        inputs = np.array([[_START, *row.prefix[:known]] for row in rows], np.int64)
        while True:
            control.check()
            predicted = self._step(inputs, cache, control)
            following = [row.next_input(int(token)) for row, token in zip(active, predicted, strict=True)]
            going_on = [place for place, row in enumerate(active) if not row.done]
            if not going_on:
                return [row.new_tokens for row in batch]
            if len(going_on) < len(active):
                cache.keep(going_on)
                active = [active[place] for place in going_on]
            inputs = np.array([[following[place]] for place in going_on], np.int64)

    def close(self) -> None:
        self._encoder.close()
        self._decoder.close()

    def _encode(self, rows: Sequence[Utterance], control: RunControl) -> tuple[Float32, Int64]:
        """The encoder's output (rows, frames, width), filled up with zeros, and the mask (rows, samples) of its input.

        One row after another: the encoder's cost is the same, and its memory is that of one row.
        """
        filled = [np.pad(row.samples, (0, max(_MIN_SAMPLES - len(row.samples), 0))) for row in rows]
        hidden = [self._encode_row(samples, control) for samples in filled]
        frames = np.zeros((len(rows), max(map(len, hidden)), hidden[0].shape[1]), np.float32)
        mask = np.zeros((len(rows), max(map(len, filled))), np.int64)
        for place, (samples, output) in enumerate(zip(filled, hidden, strict=True)):
            frames[place, : len(output)] = output
            mask[place, : len(samples)] = 1
        return frames, mask

    def _encode_row(self, samples: Float32, control: RunControl) -> Float32:
        mask = np.ones((1, len(samples)), np.int64)
        feeds: dict[str, Array] = {"input_values": samples[np.newaxis], "attention_mask": mask}
        (hidden,) = self._encoder.run(feeds, control)
        row: Float32 = hidden[0]
        return row

    def _step(self, inputs: Int64, cache: "_Cache", control: RunControl) -> Int64:
        """Runs the decoder over `inputs` (rows, n) after the cache, extends the cache, and predicts (rows,) tokens."""
        first = not cache.own
        kept = self._own_cache + self._cross_cache if first else self._own_cache
        past = self._empty_cache(len(inputs)) if first else cache.own | cache.cross
        feeds: dict[str, Array] = {
            "input_ids": inputs,
            "encoder_hidden_states": cache.hidden,
            "encoder_attention_mask": cache.mask,
            "use_cache_branch": np.array([not first]),
            **past,
        }
        names = [name.replace("past_key_values", "present") for name in kept]
        logits, *present = self._decoder.run(feeds, control, outputs=["logits", *names])
        values = dict(zip(kept, present, strict=True))
        cache.own = {name: values[name] for name in self._own_cache}
        if first:
            cache.cross = {name: values[name] for name in self._cross_cache}
        predicted: Int64 = logits[:, -1].argmax(axis=-1)
        return predicted

    def _empty_cache(self, rows: int) -> dict[str, Array]:
        empty = np.zeros((rows, self._heads or 0, 0, self._head_size or 0), np.float32)
        return dict.fromkeys(self._own_cache + self._cross_cache, empty)


@dataclass(slots=True)
class _Cache:
    """What the decoder attends to; the first axis of each array is the row.

    `hidden` (rows, frames, width), `mask` (rows, samples) of the encoder's input; `own` and `cross` are keys and
    values (rows, heads, length, size) by input name.
    """

    hidden: Float32
    mask: Int64
    own: dict[str, Array] = field(default_factory=dict)
    cross: dict[str, Array] = field(default_factory=dict)

    def keep(self, places: Sequence[int]) -> None:
        """Drops the other rows, one array after another, so that old and new are not held all at once."""
        self.hidden = self.hidden[places]
        self.mask = self.mask[places]
        for arrays in (self.own, self.cross):
            for name in arrays:
                arrays[name] = arrays[name][places]


def _limit(row: Utterance) -> int:
    expected = math.ceil(_TOKENS_PER_S * len(row.samples) / SAMPLE_RATE_HZ)
    return max(expected, len(row.prefix) + _MIN_NEW_TOKENS)


def _repetition(tokens: Sequence[int]) -> int:
    """Tokens at the end that only repeat what stands before them, when they are a loop; else 0.

    A loop is a phrase said four times or more, eight times for one of a token or two ("no, no, no" is speech).
    """
    for period in range(1, len(tokens) // 4 + 1):
        times = 8 if period < 3 else 4
        length = period * times
        if length <= len(tokens) and list(tokens[-length:-period]) == list(tokens[-length + period :]):
            return length - period
    return 0
