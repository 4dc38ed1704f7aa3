"""One run in a worker, seen from the control process: its windows, its events, its end."""

from collections import deque
from collections.abc import AsyncGenerator, Callable

import trio

from audiocpp.daemon.errors import (
    BodyTooLarge,
    DaemonError,
    InsufficientMemory,
    InvalidRequest,
    RunFailed,
    UnsupportedMedia,
)
from audiocpp.engines import wire
from audiocpp.engines.tasks import TaskEvent

_ERRORS: dict[str, type[DaemonError]] = {
    "invalid_request": InvalidRequest,
    "unsupported_media": UnsupportedMedia,
    "too_large": BodyTooLarge,
    "insufficient_memory": InsufficientMemory,
}


class RunCancelledHere(Exception):
    """The worker confirms that the run was cancelled."""


class WorkerRun:
    """An open run. `push` and the iteration may happen in two tasks; each in one task at a time.

    `send` puts a command on the worker's queue and never blocks.
    """

    def __init__(self, run_id: int, model: str, send: Callable[[wire.Command], None]) -> None:
        self.id = run_id
        self.model = model
        self._send = send
        self._events: deque[TaskEvent] = deque()
        self._underway_bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self._changed = trio.Event()
        self.done: wire.RunDone | None = None

    async def push(self, data: bytes) -> None:
        """Sends input, waiting while the worker has a full window of it. Raises the run's error if it has failed.

        Returns at once, sending nothing, when the run has ended well before its input did.
        """
        for piece in wire.pieces(data):
            while self._underway_bytes >= wire.INPUT_WINDOW_BYTES and not self._ended:
                await self._changed.wait()
            if self._ended:
                self._raise_error()
                return
            self._underway_bytes += len(piece)
            self._send(wire.Push(self.id, piece))
        await trio.lowlevel.checkpoint()

    def finalize(self, token: str) -> None:
        self._send(wire.FinalizeRun(self.id, token))

    def finish(self) -> None:
        """No further input."""
        self._send(wire.FinishRun(self.id))

    async def events(self) -> AsyncGenerator[TaskEvent]:
        """The run's events until its end. Raises the run's error after the events that came before it."""
        while True:
            while self._events:
                event = self._events.popleft()
                yield event
                self._acknowledge(event)
            if self._ended:
                self._raise_error()
                return
            await self._changed.wait()

    async def cancel(self, grace_s: float) -> bool:
        """Ends the run; False when the worker has not confirmed within `grace_s`."""
        if not self._ended:
            self._send(wire.CancelRun(self.id))
            with trio.move_on_after(grace_s):
                while not self._ended:
                    await self._changed.wait()
        return self._ended

    def _acknowledge(self, event: TaskEvent) -> None:
        size = wire.output_bytes(event)
        if size and not self._ended:
            self._send(wire.AckOutput(self.id, size))

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # What the worker says.

    def receive(self, reply: wire.Event | wire.Consumed | wire.RunDone | wire.RunError) -> None:
        """Takes a reply of this run."""
        match reply:
            case wire.Event(_, event):
                self._events.append(event)
            case wire.Consumed(_, size):
                self._underway_bytes -= size
            case wire.RunDone():
                self.done = reply
                self._ended = True
            case wire.RunError():
                self.fail(_as_exception(reply))
        self._notify()

    def fail(self, error: Exception) -> None:
        """Ends the run with `error` (the worker died, say)."""
        if not self._ended:
            self._error = error
            self._ended = True
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _as_exception(reply: wire.RunError) -> Exception:
    if reply.code == "cancelled":
        return RunCancelledHere(reply.message)
    return _ERRORS.get(reply.code, RunFailed)(reply.message, param=reply.param)
