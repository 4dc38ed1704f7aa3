"""Silero VAD: where speech is, at once for a file and as it happens for a stream, by one and the same mechanism.

Model: https://github.com/snakers4/silero-vad (v6, 16 kHz, the graph over a sequence of frames); its defaults are kept.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from audiocpp.engines.audio import PcmInput
from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.endpointing import SpeechCut, SpeechEvent, SpeechRules, SpeechStart, SpeechStop, frames_of
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import NEXT, Data, End, Finalize, Lane, LoadContext, Run, Work
from audiocpp.engines.graph import GraphOptions
from audiocpp.engines.tasks import Finalized, OptionValue, Segment, SpeechStarted, SpeechStopped, TaskEvent, TaskRequest
from audiocpp.engines.voice_activity import (
    FRAME_MS,
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    SpeechTrack,
    VoiceNetwork,
    VoiceRow,
    VoiceState,
)

_OFFLINE_FRAMES = 64
"""Frames gathered for one graph run of an offline request, 2 s."""


class SileroVad:
    """Family `silero_vad`, task `vad`. File role: `sequence`.

    Request options: `threshold` (0.5), `min_speech_ms` (250), `min_silence_ms` (100), `speech_pad_ms` (30) and
    `max_speech_s` (0: no limit).
    """

    name: ClassVar[str] = "silero_vad"

    def __init__(self, network: VoiceNetwork) -> None:
        self._network = network

    @classmethod
    def load(cls, context: LoadContext) -> "SileroVad":
        return cls(VoiceNetwork(context.open_graph(context.files["sequence"], GraphOptions())))

    def run(self, request: TaskRequest) -> Run:
        """Offline answers `Segment`s; streaming also `SpeechStarted` and `SpeechStopped`, as soon as they are sure."""
        if request.task != "vad":
            raise InvalidInput(f"task {request.task!r} is not offered; silero_vad does vad", param="task")
        if request.audio is None:
            raise InvalidInput("vad needs audio", param="audio")
        options = VadOptions.of(request.options)
        streaming = request.mode == "streaming"
        track = SpeechTrack(
            self._network,
            options.rules,
            lane=Lane.LIVE_TRACK if streaming else Lane.BATCH,
            min_frames=1 if streaming else _OFFLINE_FRAMES,
        )
        report = SpeechReport(pad_s=options.pad_s, edges=streaming)
        return _follow(PcmInput(request.audio, SAMPLE_RATE_HZ), track, report)

    def warm_up(self) -> None:
        row = VoiceRow(np.zeros((1, FRAME_SAMPLES), np.float32), VoiceState())
        self._network.probabilities([row], RunControl())

    def close(self) -> None:
        self._network.close()


@dataclass(frozen=True, slots=True)
class VadOptions:
    """The request's options as rules for the detector. `pad_s` widens each segment at both ends."""

    rules: SpeechRules
    pad_s: float

    @classmethod
    def of(cls, options: Mapping[str, OptionValue]) -> "VadOptions":
        """Raises `InvalidInput` for a value without sense."""

        def number(name: str, default: float, *, most: float) -> float:
            value = float(options.get(name, default))
            if not 0 <= value <= most:
                raise InvalidInput(f"{name} is {value:g}; 0 to {most:g} is accepted", param=name)
            return value

        min_silence_ms = number("min_silence_ms", 100, most=10_000)
        rules = SpeechRules(
            threshold=number("threshold", 0.5, most=1),
            min_speech=frames_of(number("min_speech_ms", 250, most=10_000), FRAME_MS),
            min_silence=frames_of(min_silence_ms, FRAME_MS),
            max_speech=frames_of(1000 * number("max_speech_s", 0, most=3600), FRAME_MS),
        )
        # A wider pad than the silence that was waited for would reach into what is not yet heard.
        pad_ms = min(number("speech_pad_ms", 30, most=10_000), min_silence_ms)
        return cls(rules, pad_ms / 1000)


class SpeechReport:
    """Turns the detector's events into a request's events: seconds, padded, never overlapping."""

    def __init__(self, *, pad_s: float, edges: bool) -> None:
        self._pad_s = pad_s
        self._edges = edges
        self._index = 0
        self._start_s = 0.0
        self._end_s = 0.0

    def events(self, found: list[SpeechEvent], heard_s: float) -> list[TaskEvent]:
        """`heard_s`: length of the caller's audio so far; no time lies beyond it."""
        events: list[TaskEvent] = []
        for event in found:
            at_s = event.at * FRAME_MS / 1000
            match event:
                case SpeechStart():
                    self._start_s = max(at_s - self._pad_s, self._end_s)
                    events += [SpeechStarted(self._start_s)] if self._edges else []
                case SpeechCut():
                    events.append(self._segment(at_s))
                    self._start_s = at_s
                case SpeechStop():
                    end_s = min(at_s + self._pad_s, heard_s)
                    events += [SpeechStopped(end_s)] if self._edges else []
                    events.append(self._segment(end_s))
        return events

    def _segment(self, end_s: float) -> Segment:
        segment = Segment(index=self._index, start=self._start_s, end=end_s)
        self._index += 1
        self._end_s = end_s
        return segment


def _follow(pcm: PcmInput, track: SpeechTrack, report: SpeechReport) -> Run:
    while not isinstance(item := (yield NEXT), End):
        match item:
            case Data(data):
                yield from _report(track.hear(pcm.push(data)), pcm, report)
            case Finalize(token):
                yield from _report(track.flush(last=False), pcm, report)
                yield Finalized(token)
    yield from _report(track.hear(pcm.finish()), pcm, report)
    yield from _report(track.flush(last=True), pcm, report)


def _report(following: Generator[Work, Any, list[SpeechEvent]], pcm: PcmInput, report: SpeechReport) -> Run:
    found = yield from following
    yield from report.events(found, pcm.duration_s)
