"""The limits of one live session (`live_ingest`), counted. No clock of its own."""

import math
from dataclasses import dataclass, field

import msgspec

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.live.close_codes import POLICY, TOO_LARGE
from audiocpp.daemon.live.messages import Audio


class Exceeded(msgspec.Struct, frozen=True):
    """A limit that ends the session. `limit` is its key, `code` the WebSocket close code that goes with it."""

    message: str
    limit: str
    code: int = POLICY


@dataclass(slots=True)
class IngestMeter:
    """What a client has sent, and when. Times are seconds of the caller's clock; `opened_s` is the present one."""

    limits: LiveIngest
    opened_s: float
    _active_s: float = field(init=False)
    _body_bytes: int = 0
    _frame_bytes: int = 0

    def __post_init__(self) -> None:
        self._active_s = self.opened_s

    def touch(self, now_s: float) -> None:
        """The client is not idle: it has sent something, or waits for us."""
        self._active_s = now_s

    def resume(self, now_s: float) -> None:
        """A new connection, which begins with a new frame."""
        self._frame_bytes = 0
        self.touch(now_s)

    def count(self, heard: Audio, now_s: float) -> Exceeded | None:
        """Audio has come."""
        self._active_s = now_s
        self._frame_bytes += len(heard.data)
        if self._frame_bytes > self.limits.max_chunk_bytes:
            return Exceeded("chunk size exceeds the maximum", "max_chunk_bytes", TOO_LARGE)
        if heard.ends:
            self._frame_bytes = 0
        self._body_bytes += len(heard.data) + heard.framing_bytes
        if 0 < self.limits.max_body_bytes < self._body_bytes:
            return Exceeded("live request body exceeded its maximum size", "max_body_bytes")
        return None

    def expired(self, now_s: float) -> Exceeded | None:
        """Time has passed."""
        if now_s >= self.total_end_s:
            return Exceeded("live request body exceeded its total deadline", "total_timeout_ms")
        if now_s >= self._idle_end_s:
            return Exceeded("live request body stalled", "idle_timeout_ms")
        return None

    @property
    def deadline_s(self) -> float:
        """When `expired` may be true."""
        return min(self._idle_end_s, self.total_end_s)

    @property
    def total_end_s(self) -> float:
        return self.opened_s + (self.limits.total_timeout_ms / 1e3 or math.inf)

    @property
    def _idle_end_s(self) -> float:
        return self._active_s + (self.limits.idle_timeout_ms / 1e3 or math.inf)
