"""Transcribes a recording with a recogniser of whole utterances: speech is found, packed, decoded several rows at once.

Memory does not follow the length of the input: audio is dropped as soon as it is decoded, and no more of it is read
while the decoder is busy. Knows no model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from audiocpp.engines.audio import PcmInput, SampleWindow
from audiocpp.engines.endpointing import SpeechEvent, SpeechRules, SpeechStart, frames_of
from audiocpp.engines.family import NEXT, Background, Completed, Data, End, Finalize, Lane, Run, Work
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioFormat, Finalized, Segment, TaskEvent, TextDelta
from audiocpp.engines.transcript_text import TranscriptText, is_plausible
from audiocpp.engines.utterances import (
    PAD_SAMPLES,
    Stretch,
    StretchPacker,
    Tokens,
    Utterance,
    UtteranceDecoder,
    is_audible,
)
from audiocpp.engines.voice_activity import FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ, SpeechTrack, VoiceNetwork

MAX_UTTERANCE_S: Final = 10.0
"""Longest audio of a row. Measured with Moonshine tiny: longer rows are hardly more accurate and cost more a second."""

_MAX_GAP_S: Final = 2.0
_FRAMES_AT_ONCE: Final = 64
_GROUPS_AT_ONCE: Final = 2
"""Groups of rows decoded in parallel, where the worker has as many compute threads."""

_RULES: Final = SpeechRules(
    min_speech=frames_of(150, FRAME_MS),
    min_silence=frames_of(100, FRAME_MS),
    max_speech=frames_of(1000 * MAX_UTTERANCE_S, FRAME_MS),
)


@dataclass(frozen=True, slots=True)
class _Row:
    index: int
    stretch: Stretch
    utterance: Utterance


class OfflineTranscription:
    """One request. `network` None takes everything for speech."""

    def __init__(self, decoder: UtteranceDecoder, network: VoiceNetwork | None, audio: AudioFormat) -> None:
        self._decoder = decoder
        self._pcm = PcmInput(audio, SAMPLE_RATE_HZ)
        self._track = SpeechTrack(network, _RULES, lane=Lane.BATCH, min_frames=_FRAMES_AT_ONCE)
        self._audio = PackedSpeech()
        self._rows: list[_Row] = []
        self._count = 0
        self._decoding: dict[str, Sequence[_Row]] = {}
        self._transcript = OrderedTranscript(decoder)

    def run(self) -> Run:
        """Yields a `TextDelta` and a `Segment` for each row, in the order of the audio."""
        while not isinstance(item := (yield NEXT), End):
            match item:
                case Data(data):
                    yield from self._hear(self._pcm.push(data))
                case Completed():
                    yield from self._take(item)
                case Finalize(token):
                    yield Finalized(token)
        yield from self._hear(self._pcm.finish())
        self._collect((yield from self._track.flush(last=True)))
        self._add(self._audio.finish())
        yield from self._decode()
        while self._decoding:
            item = yield NEXT
            yield from self._take(item)

    def _hear(self, samples: Float32) -> Run:
        self._audio.push(samples)
        self._collect((yield from self._track.hear(samples)))
        self._audio.forget(self._track.earliest_sample)
        if len(self._rows) >= _GROUPS_AT_ONCE * self._decoder.max_rows:
            yield from self._decode()

    def _collect(self, events: list[SpeechEvent]) -> None:
        for event in events:
            self._add(self._audio.follow(event))

    def _add(self, piece: tuple[Stretch, Float32] | None) -> None:
        if piece is not None and is_audible(piece[1]):
            self._rows.append(_Row(self._count, piece[0], Utterance(piece[1])))
            self._count += 1

    def _decode(self) -> Run:
        """Decodes the waiting rows. All groups but the last go in the background; the last is waited for."""
        groups = _groups(self._rows, self._decoder.max_rows)
        self._rows = []
        for group in groups[:-1]:
            tag = str(group[0].index)
            self._decoding[tag] = group
            yield Background(self._work(group, alone=True), tag)
        for group in groups[-1:]:
            results = yield self._work(group, alone=len(groups) > 1)
            yield from self._transcript.take(group, results)

    def _work(self, group: Sequence[_Row], *, alone: bool) -> Work:
        """`alone`: not merged with other work, which would take a group's computing thread away."""
        rows = [row.utterance for row in group]
        return Work(self._decoder.decode, rows, Lane.BATCH, len(rows) if alone else self._decoder.max_rows)

    def _take(self, completed: Completed) -> Iterator[TaskEvent]:
        group = self._decoding.pop(completed.tag)
        if completed.error is not None:
            raise completed.error
        return self._transcript.take(group, completed.results)


def _groups(rows: Sequence[_Row], max_rows: int) -> list[Sequence[_Row]]:
    """Rows of like length together, so that little is padded; enough groups that all computing threads have one."""
    if not rows:
        return []
    ordered = sorted(rows, key=lambda row: len(row.utterance.samples))
    count = max(min(_GROUPS_AT_ONCE, len(rows)), -(-len(rows) // max_rows))
    bounds = [len(rows) * number // count for number in range(count + 1)]
    return [ordered[start:end] for start, end in pairwise(bounds)]


class PackedSpeech:
    """The audio of a stream's speech, packed into utterances that overlap nowhere."""

    def __init__(self) -> None:
        self._window = SampleWindow()
        self._packer = StretchPacker(
            max_samples=int(MAX_UTTERANCE_S * SAMPLE_RATE_HZ), max_gap=int(_MAX_GAP_S * SAMPLE_RATE_HZ)
        )
        self._speech_start = 0
        self._taken = 0

    def push(self, samples: Float32) -> None:
        self._window.push(samples)

    def follow(self, event: SpeechEvent) -> tuple[Stretch, Float32] | None:
        """Takes the detector's next event; returns the pack that it completes, with its samples."""
        at = event.at * FRAME_SAMPLES
        packed = None
        if not isinstance(event, SpeechStart):
            packed = self._packer.add(Stretch(self._speech_start, at))
        next_start, self._speech_start = self._speech_start, at
        return self._cut(packed, (packed.end + next_start) // 2) if packed else None

    def finish(self) -> tuple[Stretch, Float32] | None:
        packed = self._packer.finish()
        return self._cut(packed, self._window.end) if packed else None

    def forget(self, before: int) -> None:
        """Drops audio that no pack will need. `before`: no later event lies before this sample."""
        held = self._packer.open
        self._window.forget((held.start if held else before) - PAD_SAMPLES)

    def _cut(self, pack: Stretch, limit: int) -> tuple[Stretch, Float32]:
        """A pack with a little of the silence around it, up to `limit`: half of what divides it from the next."""
        start, self._taken = max(pack.start - PAD_SAMPLES, self._taken), min(pack.end + PAD_SAMPLES, limit)
        return Stretch(pack.start, min(pack.end, self._window.end)), self._window.cut(start, self._taken)


class OrderedTranscript:
    """Rows come back in any order; their text leaves in the order of the audio."""

    def __init__(self, decoder: UtteranceDecoder) -> None:
        self._decoder = decoder
        self._text = TranscriptText()
        self._done: dict[int, tuple[Stretch, Tokens]] = {}
        self._next = 0
        self._segments = 0

    def take(self, rows: Sequence[_Row], results: Sequence[Tokens]) -> Iterator[TaskEvent]:
        """Takes decoded rows and yields what has its turn."""
        for row, tokens in zip(rows, results, strict=True):
            self._done[row.index] = row.stretch, tokens
        while self._next in self._done:
            yield from self._tell(*self._done.pop(self._next))
            self._next += 1

    def _tell(self, stretch: Stretch, tokens: Tokens) -> Iterator[TaskEvent]:
        text = self._decoder.text(tokens)
        if not is_plausible(text, stretch.duration_s):
            return
        added = self._text.push(self._text.new_utterance(text))
        yield TextDelta(added)
        yield Segment(index=self._segments, start=stretch.start_s, end=stretch.end_s, text=added.strip())
        self._segments += 1
