"""Follows speech in a stream of 16 kHz samples: the Silero network with its state, and the decisions on its output.

Used by the `vad` task and by recognisers that hear through it. Knows neither requests nor events of the wire.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from audiocpp.engines.audio import FrameCutter, levels_db
from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.endpointing import SpeechEvent, SpeechRules, VoiceDetector
from audiocpp.engines.family import Lane, Work
from audiocpp.engines.graph import Float32, Graph

SAMPLE_RATE_HZ: Final = 16_000
FRAME_SAMPLES: Final = 512
FRAME_MS: Final = 1000 * FRAME_SAMPLES / SAMPLE_RATE_HZ

_CONTEXT_SAMPLES: Final = 64
_STATE_SHAPE: Final = (1, 1, 128)
_MAX_FRAMES: Final = 512
"""Frames in one graph run: 16 s, so that memory does not follow the input's length."""

_MAX_ROWS: Final = 16


@dataclass(frozen=True, slots=True)
class VoiceState:
    """What the network remembers between frames: the last samples and its recurrent state."""

    context: Float32 = field(default_factory=lambda: np.zeros(_CONTEXT_SAMPLES, np.float32))
    hidden: Float32 = field(default_factory=lambda: np.zeros(_STATE_SHAPE, np.float32))
    cell: Float32 = field(default_factory=lambda: np.zeros(_STATE_SHAPE, np.float32))


@dataclass(frozen=True, slots=True)
class VoiceRow:
    """Frames (n, 512) of one stream and the state before them."""

    frames: Float32
    state: VoiceState


class VoiceNetwork:
    """Silero VAD v6 as the graph over a sequence of frames: `input` (n, 576), `h` and `c` (1, 1, 128)."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def probabilities(self, rows: Sequence[VoiceRow], control: RunControl) -> list[tuple[Float32, VoiceState]]:
        """For each row the speech probability of its frames (n,) and the state after them."""
        return [self._follow(row, control) for row in rows]

    def close(self) -> None:
        self._graph.close()

    def _follow(self, row: VoiceRow, control: RunControl) -> tuple[Float32, VoiceState]:
        state, parts = row.state, []
        for start in range(0, len(row.frames), _MAX_FRAMES):
            part, state = self._run(row.frames[start : start + _MAX_FRAMES], state, control)
            parts.append(part)
        return np.concatenate(parts), state

    def _run(self, frames: Float32, state: VoiceState, control: RunControl) -> tuple[Float32, VoiceState]:
        """Each frame is preceded by the last samples of the one before it."""
        tails = frames[:, -_CONTEXT_SAMPLES:]
        contexts = np.concatenate((state.context[np.newaxis], tails[:-1]))
        feeds = {"input": np.concatenate((contexts, frames), axis=1), "h": state.hidden, "c": state.cell}
        found, hidden, cell = self._graph.run(feeds, control, outputs=("speech_probs", "hn", "cn"))
        return found.reshape(-1), VoiceState(tails[-1].copy(), hidden, cell)


class SpeechTrack:
    """The speech in one stream.

    Args:
        network: None takes every frame for speech, for callers that say themselves where it ends.
        lane: where the network's work queues.
        min_frames: frames that are worth a graph run; fewer wait, until `flush`.
    """

    def __init__(self, network: VoiceNetwork | None, rules: SpeechRules, *, lane: Lane, min_frames: int = 1) -> None:
        self._network = network
        self._detector = VoiceDetector(rules)
        self._lane = lane
        self._min_samples = min_frames * FRAME_SAMPLES
        self._cutter = FrameCutter(FRAME_SAMPLES)
        self._waiting: list[Float32] = []
        self._state = VoiceState()

    @property
    def in_speech(self) -> bool:
        return self._detector.in_speech

    @property
    def earliest_sample(self) -> int:
        """No later event lies before this sample."""
        return self._detector.earliest * FRAME_SAMPLES

    def keep_undivided(self, before_sample: int) -> None:
        """No cut before this sample. See `VoiceDetector.keep_undivided`."""
        self._detector.keep_undivided(-(-before_sample // FRAME_SAMPLES))

    def hear(self, samples: Float32) -> Generator[Work, Any, list[SpeechEvent]]:
        """Events found up to the last whole frame."""
        self._waiting.append(samples)
        if sum(map(len, self._waiting)) < self._min_samples - self._cutter.waiting:
            return []
        return (yield from self._follow(self._cutter.push(self._gather())))

    def flush(self, *, last: bool) -> Generator[Work, Any, list[SpeechEvent]]:
        """Events of all that was heard, ending the speech in progress. `last`: nothing follows."""
        events = yield from self._follow(self._cutter.push(self._gather()))
        if last:
            events += yield from self._follow(self._cutter.finish())
        return events + self._detector.flush()

    def _gather(self) -> Float32:
        samples = np.concatenate(self._waiting) if self._waiting else np.zeros(0, np.float32)
        self._waiting.clear()
        return samples

    def _follow(self, frames: Float32) -> Generator[Work, Any, list[SpeechEvent]]:
        if len(frames) == 0:
            return []
        levels = levels_db(frames).tolist()
        if self._network is None:
            return self._detector.push([1.0] * len(frames), levels)
        row = VoiceRow(frames, self._state)
        ((found, self._state),) = yield Work(self._network.probabilities, [row], self._lane, _MAX_ROWS)
        return self._detector.push(found.tolist(), levels)
