"""Transcribes a live stream with a recogniser of whole utterances, behind voice activity. Knows no model.

While one speaks, the growing utterance is decoded again and again, and the words on which two successive hypotheses
agree are sent. Sent words are final: later decodes of the utterance start from them, so nothing sent is ever
contradicted, and the last decode has only the rest to find. A short utterance is decoded together with the ones just
before it and their known words, because a recogniser errs on single words without context.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from audiocpp.engines.audio import PcmInput, SampleWindow
from audiocpp.engines.endpointing import SpeechCut, SpeechEvent, SpeechRules, SpeechStart, SpeechStop, frames_of
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import NEXT, Background, Completed, Data, End, Finalize, Lane, Revoke, Run, Work
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import (
    AudioFormat,
    Finalized,
    Segment,
    SpeechAnswered,
    SpeechStarted,
    SpeechStopped,
    TaskEvent,
    TextDelta,
    TextPartial,
)
from audiocpp.engines.transcript_text import TranscriptText, agreed_tokens, is_plausible
from audiocpp.engines.utterance_history import Spoken, UtteranceHistory
from audiocpp.engines.utterances import PAD_SAMPLES, Stretch, Tokens, Utterance, UtteranceDecoder, is_audible
from audiocpp.engines.voice_activity import FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ, SpeechTrack, VoiceNetwork

MAX_UTTERANCE_S: Final = 12.0
_GUESS_SAMPLES: Final = SAMPLE_RATE_HZ // 2
_EARLY_GUESS_SAMPLES: Final = SAMPLE_RATE_HZ // 4
_GUESS_SHARE: Final = 0.15
"""New audio that is worth decoding again: a quarter of a second until there are words, then half a second, more for a
long utterance, whose decode costs more."""

_MIN_ENDPOINT_MS: Final = 100
_MAX_ENDPOINT_MS: Final = 10_000


@dataclass(slots=True)
class _Speaking:
    """The utterance in progress.

    Attributes:
        start: where speech was detected; `audio_start`: where its audio begins, a little before.
        sent: its tokens that were sent, as `text`; `guess`: the last hypothesis, which begins with them.
        guessed_up_to: end of the audio of the last guess that was started; `taken_up_to`: of the last one taken.
        shown: a partial was sent.
    """

    start: int
    audio_start: int
    guessed_up_to: int
    sent: Tokens = ()
    text: str = ""
    guess: Tokens = ()
    taken_up_to: int = 0
    shown: bool = False


class LiveTranscription:
    """One session.

    Args:
        network: None takes everything for speech; then only the client ends an utterance, with `Finalize`.
        endpoint_silence_ms: silence that ends an utterance.
        partials: also send the revisable guess.
    """

    def __init__(
        self,
        decoder: UtteranceDecoder,
        network: VoiceNetwork | None,
        audio: AudioFormat,
        *,
        endpoint_silence_ms: int,
        partials: bool,
    ) -> None:
        self._decoder = decoder
        self._detects = network is not None
        self._partials = partials
        self._pcm = PcmInput(audio, SAMPLE_RATE_HZ)
        self._window = SampleWindow()
        self._track = SpeechTrack(network, _rules(endpoint_silence_ms, detects=self._detects), lane=Lane.LIVE_TRACK)
        self._history = UtteranceHistory()
        self._text = TranscriptText()
        self._speaking: _Speaking | None = None
        self._taken = 0
        self._segments = 0
        self._guesses = 0
        self._pending = ""

    def run(self) -> Run:
        while not isinstance(item := (yield NEXT), End):
            match item:
                case Data(data):
                    yield from self._hear(self._pcm.push(data))
                case Completed():
                    yield from self._take_guess(item)
                case Finalize(token):
                    yield from self._flush(last=False)
                    yield Finalized(token)
        yield from self._hear(self._pcm.finish())
        yield from self._flush(last=True)

    def _hear(self, samples: Float32) -> Run:
        self._window.push(samples)
        yield from self._follow((yield from self._track.hear(samples)))
        yield from self._guess()
        self._forget()

    def _flush(self, *, last: bool) -> Run:
        """Ends the utterance in progress with all that was heard, also samples that fill no frame yet."""
        events = yield from self._track.flush(last=last)
        yield from self._follow(events)
        self._forget()

    def _follow(self, events: list[SpeechEvent]) -> Run:
        for event in events:
            at = min(event.at * FRAME_SAMPLES, self._window.end)
            match event:
                case SpeechStart():
                    if self._detects:
                        yield SpeechStarted(at / SAMPLE_RATE_HZ)
                    self._begin(at)
                case SpeechCut():
                    yield from self._end(at, audio_end=at)
                    self._begin(at)
                case SpeechStop():
                    if self._detects:
                        yield SpeechStopped(at / SAMPLE_RATE_HZ)
                    yield from self._end(at, audio_end=min(at + PAD_SAMPLES, self._window.end))
                    if self._detects:
                        yield SpeechAnswered()

    def _begin(self, at: int) -> None:
        self._speaking = _Speaking(at, max(at - PAD_SAMPLES, self._taken), guessed_up_to=at)

    def _end(self, at: int, *, audio_end: int) -> Run:
        """The final decode of the utterance in progress."""
        speaking, self._speaking = self._speaking, None
        assert speaking is not None
        if self._pending:
            yield Revoke(self._pending)
            self._pending = ""
        self._taken = audio_end
        tokens = speaking.sent
        if is_audible(self._window.cut(speaking.audio_start, audio_end)):
            row = self._utterance(speaking, audio_end)
            (rest,) = yield Work(self._decoder.decode, [row], Lane.LIVE_FINAL, self._decoder.max_rows)
            tokens += rest
        stretch = Stretch(speaking.start, at)
        if speaking.sent or is_plausible(self._decoder.text(tokens), stretch.duration_s):
            self._history.add(Spoken(speaking.audio_start, audio_end, tokens))
            yield from self._send(speaking, tokens)
            yield Segment(index=self._segments, start=stretch.start_s, end=stretch.end_s, text=speaking.text.strip())
            self._segments += 1
        if speaking.shown:
            yield TextPartial("")

    def _guess(self) -> Run:
        """Starts a decode of the utterance so far, where one is worth it and none is under way."""
        speaking, end = self._speaking, self._window.end
        if speaking is None or self._pending:
            return
        least = _GUESS_SAMPLES if speaking.sent else _EARLY_GUESS_SAMPLES
        if end - speaking.guessed_up_to < max(least, _GUESS_SHARE * (end - speaking.audio_start)):
            return
        speaking.guessed_up_to = end
        if not is_audible(self._window.cut(speaking.audio_start, end)):
            return
        self._guesses += 1
        self._pending = f"guess {self._guesses}"
        row = self._utterance(speaking, end)
        work = Work(self._decoder.decode, [row], Lane.LIVE_PARTIAL, self._decoder.max_rows)
        yield Background(work, self._pending)

    def _take_guess(self, completed: Completed) -> Run:
        """Sends what the new hypothesis confirms. One of an utterance that has ended meanwhile is of no use."""
        speaking = self._speaking
        if completed.tag != self._pending or speaking is None:
            return
        self._pending = ""
        if completed.error is not None:
            raise completed.error
        guess = speaking.sent + completed.results[0]
        duration_s = (speaking.guessed_up_to - speaking.audio_start) / SAMPLE_RATE_HZ
        if not is_plausible(self._decoder.text(guess), duration_s):
            return
        agreed = agreed_tokens(speaking.guess, guess, self._decoder.starts_word)
        if agreed > len(speaking.sent):
            yield from self._send(speaking, guess[:agreed])
            # The earlier of the two guesses had heard all these words, so they lie before its end.
            self._track.keep_undivided(speaking.taken_up_to)
        speaking.guess, speaking.taken_up_to = guess, speaking.guessed_up_to
        if self._partials:
            speaking.shown = True
            yield TextPartial(self._text.preview(self._piece(speaking, guess)))

    def _send(self, speaking: _Speaking, tokens: Tokens) -> Iterator[TaskEvent]:
        added = self._text.push(self._piece(speaking, tokens))
        speaking.sent = tokens
        speaking.text += added
        if added:
            yield TextDelta(added)

    def _piece(self, speaking: _Speaking, tokens: Tokens) -> str:
        """The text of `tokens` after those sent."""
        piece = self._decoder.text(tokens[len(speaking.sent) :])
        return piece if speaking.sent else self._text.new_utterance(piece)

    def _utterance(self, speaking: _Speaking, end: int) -> Utterance:
        start, known = self._history.context(speaking.audio_start, end)
        return Utterance(self._window.cut(start, end), known + speaking.sent)

    def _forget(self) -> None:
        """Drops audio that neither the utterance in progress nor its context nor a pre-roll needs."""
        needed = self._speaking.audio_start if self._speaking else self._track.earliest_sample - PAD_SAMPLES
        context = self._history.start
        self._window.forget(needed if context is None else min(needed, context))


def _rules(endpoint_silence_ms: int, *, detects: bool) -> SpeechRules:
    if not _MIN_ENDPOINT_MS <= endpoint_silence_ms <= _MAX_ENDPOINT_MS:
        raise InvalidInput(
            f"endpoint_silence_ms is {endpoint_silence_ms}; {_MIN_ENDPOINT_MS} to {_MAX_ENDPOINT_MS} is accepted",
            param="endpoint_silence_ms",
        )
    return SpeechRules(
        min_speech=frames_of(150, FRAME_MS) if detects else 1,
        min_silence=frames_of(endpoint_silence_ms, FRAME_MS),
        max_speech=frames_of(1000 * MAX_UTTERANCE_S, FRAME_MS),
    )
