"""A run in a worker: what it waits for, and how it ends."""

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from audiocpp.engines import wire
from audiocpp.engines.errors import EngineError, OutOfMemory
from audiocpp.engines.family import Data, Input, Run
from audiocpp.engines.scheduler import Job

JOINED_BYTES = 64 << 10
"""Bytes that are taken together at most, two seconds of PCM16: what is computed for them stays short."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ActiveRun:
    """A run and what it waits for. Guarded by the driver's lock, but for `generator`: the driving thread's own."""

    id: int
    generator: Run
    opened: float
    inputs: deque[Input] = field(default_factory=deque)
    jobs: dict[Job, str] = field(default_factory=dict)
    answer: Any = None
    failure: BaseException | None = None
    awaits_input: bool = False
    awaits_window: bool = False
    cancelled: bool = False
    queued: bool = False
    unacked_bytes: int = 0
    compute_s: float = 0.0
    live: bool = False

    def take_input(self) -> Input | None:
        """The next input; bytes with those that follow at once, up to `JOINED_BYTES`."""
        if not self.inputs:
            return None
        item = self.inputs.popleft()
        if not isinstance(item, Data):
            return item
        pieces, size = [item.data], len(item.data)
        while self.inputs and isinstance(following := self.inputs[0], Data):
            size += len(following.data)
            if size > JOINED_BYTES:
                break
            pieces.append(following.data)
            self.inputs.popleft()
        return item if len(pieces) == 1 else Data(b"".join(pieces))


def last_message(run: ActiveRun, error: BaseException | None) -> wire.RunDone | wire.RunError:
    """What the control process is told at the end. An error that nobody foresaw is logged with its traceback."""
    match error:
        case None:
            wall_ms = (time.monotonic() - run.opened) * 1e3
            return wire.RunDone(run=run.id, wall_ms=wall_ms, compute_ms=run.compute_s * 1e3)
        case EngineError():
            return wire.RunError(run=run.id, code=error.code, message=error.message, param=error.param)
        case MemoryError():
            return wire.RunError(
                run=run.id, code=OutOfMemory.code, message="the run needs more memory than it may have"
            )
        case _:
            log.error("a run failed", exc_info=error)
            return wire.RunError(run=run.id, code=EngineError.code, message=f"{type(error).__name__}: {error}")
