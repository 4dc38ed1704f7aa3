"""The items of a Realtime session: which of them the model's words belong to, and what a client is told of each."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.live.realtime_config import Shape

CONTENT_INDEX = 0
"""Every item has one content: its audio."""

Event = dict[str, Any]


@dataclass(slots=True)
class Item:
    """A stretch of the client's audio. `seconds` is its length once it has been committed."""

    id: str
    started_s: float
    text: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class ItemOrder:
    """Gives the items of a session their ids, and knows which was committed last."""

    session_id: str
    shape: Shape
    last_id: str | None = None
    _count: int = 0

    def new_id(self) -> str:
        self._count += 1
        return f"item_{self.session_id[-12:]}_{self._count}"


@dataclass(slots=True)
class Items:
    """The items of a run that are not transcribed yet, oldest first: those that were committed, then at most one that
    was not. Words come in the order of the audio, so they always belong to the oldest.
    """

    order: ItemOrder
    current: Item | None = None
    _committed: deque[Item] = field(default_factory=deque)

    @property
    def awaits_text(self) -> bool:
        """Whether an item was committed that is not transcribed yet."""
        return bool(self._committed)

    def begin(self, at_s: float) -> Item:
        """Audio of a new item begins, unless one has begun."""
        if self.current is None:
            self.current = Item(self.order.new_id(), at_s)
        return self.current

    def commit(self, at_s: float) -> Iterator[Event]:
        """The audio of the current item ends."""
        item = self.begin(at_s)
        item.seconds = max(at_s - item.started_s, 0.0)
        self._committed.append(item)
        self.current = None
        yield {"type": "input_audio_buffer.committed", "item_id": item.id, "previous_item_id": self.order.last_id}
        yield from self._added(item)
        self.order.last_id = item.id

    def hear(self, delta: str) -> Iterator[Event]:
        """Words of the oldest item. Their item starts without the space that parts it from the one before."""
        item = self._committed[0] if self._committed else self.current
        if item is None:
            return
        delta = delta if item.text else delta.lstrip()
        item.text += delta
        if delta:
            yield {"type": f"{_TRANSCRIPTION}.delta", **_content(item), "delta": delta}

    def complete(self) -> Iterator[Event]:
        """The oldest committed item has been transcribed."""
        item = self._committed.popleft()
        usage = {"type": "duration", "seconds": round(item.seconds, 3)}
        yield {"type": f"{_TRANSCRIPTION}.completed", **_content(item), "transcript": item.text, "usage": usage}

    def fail(self, error: DaemonError) -> Iterator[Event]:
        """None of them will be transcribed."""
        told = {"type": error.type, "code": error.code, "message": error.message, "param": None}
        while self._committed:
            yield {"type": f"{_TRANSCRIPTION}.failed", **_content(self._committed.popleft()), "error": told}

    def _added(self, item: Item) -> Iterator[Event]:
        content = [{"type": "input_audio", "transcript": None}]
        shown = {"id": item.id, "object": "realtime.item", "type": "message", "status": "completed", "role": "user"}
        kinds = ("created",) if self.order.shape == "beta" else ("added", "done")
        for kind in kinds:
            yield {
                "type": f"conversation.item.{kind}",
                "previous_item_id": self.order.last_id,
                "item": {**shown, "content": content},
            }


_TRANSCRIPTION = "conversation.item.input_audio_transcription"


def _content(item: Item) -> Event:
    return {"item_id": item.id, "content_index": CONTENT_INDEX}
