"""One of the runs that a Realtime session is made of: the audio it was fed, and the items in that audio."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from audiocpp.daemon.live.realtime_config import RealtimeConfig
from audiocpp.daemon.live.realtime_items import Event, Items
from audiocpp.engines.tasks import Finalized, SpeechAnswered, SpeechStarted, SpeechStopped, TaskEvent, TextDelta

_BUFFER = "input_audio_buffer"


@dataclass(slots=True)
class RealtimeRun:
    """A run under one configuration. `begins_s`: where its audio begins in that of the session.

    With `config.detects` the end of speech commits an item, and the model's answer to it completes it; without, the
    client commits, and the answer to the `Finalize` of that completes it.

    Attributes:
        uncommitted_bytes: since the client's last commit.
        finishing: its input has been ended, `ended`: it has answered all of it.
        dropped: what was not committed is not wanted any more.
    """

    config: RealtimeConfig
    items: Items
    begins_s: float
    uncommitted_bytes: int = 0
    finishing: bool = False
    ended: bool = False
    dropped: bool = False
    _bytes: int = 0
    _commits: int = 0
    _asked: dict[str, int] = field(default_factory=dict)

    @property
    def heard(self) -> bool:
        """Whether it was fed anything."""
        return self._bytes > 0

    @property
    def ends_s(self) -> float:
        """Where its audio ends so far."""
        return self.begins_s + self._bytes / self.config.audio.frame_bytes / self.config.audio.sample_rate

    @property
    def settled(self) -> bool:
        """Whether another run may take its place: it owes nothing that is wanted."""
        if self.finishing:
            return self.ended
        return not self.items.awaits_text and not self._asked

    def feed(self, count: int) -> None:
        if not self.config.detects:
            self.items.begin(self.ends_s)
        self._bytes += count
        self.uncommitted_bytes += count

    def commit(self, token: str) -> Iterator[Event]:
        """The client has committed; `token` is that of the `Finalize` that goes with it."""
        self.uncommitted_bytes = 0
        self._asked[token] = self._commits
        if not self.config.detects:
            yield from self._commit_item(self.ends_s)

    def finish(self) -> Iterator[Event]:
        """Its input ends, and with it an item that nobody has committed."""
        self.finishing = True
        if not self.config.detects and self.items.current is not None:
            yield from self._commit_item(self.ends_s)

    def drop(self) -> None:
        """What was not committed is not wanted any more. What was, is still answered."""
        self.dropped = True
        if not (self.config.detects and self._asked):
            self.items.current = None

    @property
    def _is_deaf(self) -> bool:
        """What comes now is of audio that was dropped."""
        return self.dropped and not self._asked

    def tell(self, event: TaskEvent) -> Iterator[Event]:
        """What the client is told of an event of this run."""
        match event:
            case TextDelta(text) if self.items.awaits_text or not self._is_deaf:
                yield from self.items.hear(text)
            case SpeechStarted(at) if not self._is_deaf:
                item = self.items.begin(self.begins_s + at)
                at_ms = round(item.started_s * 1e3)
                yield {"type": f"{_BUFFER}.speech_started", "audio_start_ms": at_ms, "item_id": item.id}
            case SpeechStopped(at) if not self._is_deaf:
                yield from self._stopped(self.begins_s + at)
            case SpeechAnswered() if self.items.awaits_text:
                yield from self.items.complete()
            case Finalized(token):
                yield from self._finalized(token)

    def end(self) -> Iterator[Event]:
        """It has answered everything."""
        self.ended = True
        while self.items.awaits_text:
            yield from self.items.complete()

    def _stopped(self, at_s: float) -> Iterator[Event]:
        item = self.items.begin(at_s)
        yield {"type": f"{_BUFFER}.speech_stopped", "audio_end_ms": round(at_s * 1e3), "item_id": item.id}
        yield from self._commit_item(at_s)

    def _commit_item(self, at_s: float) -> Iterator[Event]:
        self._commits += 1
        yield from self.items.commit(at_s)

    def _finalized(self, token: str) -> Iterator[Event]:
        """A commit in which there was no speech is an item without text."""
        commits_before = self._asked.pop(token)
        if self.config.detects:
            if self._commits > commits_before:
                return
            yield from self._commit_item(self.ends_s)
        yield from self.items.complete()
