"""The one way from a request to its events, whatever the transport: slot, lease, run."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager

import msgspec
import trio

from audiocpp.daemon.admission import Slot
from audiocpp.daemon.busy import effective_busy_timeout_ms
from audiocpp.daemon.errors import RequestTimeout
from audiocpp.daemon.lease import Lease
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.services import Services
from audiocpp.engines.tasks import AudioChunk, TaskEvent, TaskRequest

CANCEL_GRACE_S = 5.0
"""A run that has not ended so long after its cancellation is ended with its worker process."""


class RunTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds of a run's phases. `wall_ms` is the run alone, without queueing and loading."""

    queue_ms: float
    load_ms: float
    wall_ms: float
    first_event_ms: float | None
    input_s: float
    output_s: float


class TaskRun:
    """An open run. One task may `push`, another iterate; leaving `run_task` before the end cancels the run.

    `slot` is the place that it takes.
    """

    def __init__(self, lease: Lease, slot: Slot, request: TaskRequest, *, queue_ms: float, load_ms: float) -> None:
        self.slot = slot
        self._lease = lease
        self._run = lease.open(request)
        self._request = request
        self._queue_ms = queue_ms
        self._load_ms = load_ms
        self._opened = trio.current_time()
        self._first_event_ms: float | None = None
        self._input_bytes = 0
        self._output_s = 0.0

    async def push(self, data: bytes) -> None:
        """Sends input in the request's audio format, waiting while the worker has enough of it.

        Raises what made the run fail. Returns at once when the run has ended before its input.
        """
        self._input_bytes += len(data)
        await self._run.push(data)

    async def finalize(self, token: str) -> None:
        """Asks for the answer to all that was pushed so far; `Finalized(token)` follows it."""
        self._run.finalize(token)
        await trio.lowlevel.checkpoint()

    async def finish(self) -> None:
        """No further input."""
        self._run.finish()
        await trio.lowlevel.checkpoint()

    async def restart(self, request: TaskRequest) -> None:
        """Ends the run, whatever it is doing, and opens another of the same model in the same slot.

        Nobody may be pushing or iterating. Raises `WorkerDied`.
        """
        await self.end()
        self._request = request
        self._run = self._lease.open(request)

    async def end(self) -> None:
        """Cancels the run if it has not ended; one that does not obey goes with its worker process."""
        with trio.CancelScope(shield=True):
            if not await self._run.cancel(CANCEL_GRACE_S):
                self._lease.kill_worker(f"a cancelled run went on for {CANCEL_GRACE_S:g} s")

    @property
    def answered(self) -> bool:
        """Whether it came to its own end."""
        return self._run.done is not None

    async def __aiter__(self) -> AsyncIterator[TaskEvent]:
        """The events until the run's end. Raises what made it fail, after the events before that."""
        async with aclosing(self._run.events()) as events:
            async for event in events:
                if self._first_event_ms is None:
                    self._first_event_ms = (trio.current_time() - self._opened) * 1e3
                if isinstance(event, AudioChunk):
                    self._output_s += len(event.pcm) / 4 / event.channels / event.sample_rate
                yield event

    @property
    def timing(self) -> RunTiming:
        """Complete after the end; before it, `wall_ms` runs on."""
        done = self._run.done
        audio = self._request.audio
        return RunTiming(
            queue_ms=self._queue_ms,
            load_ms=self._load_ms,
            wall_ms=done.wall_ms if done else (trio.current_time() - self._opened) * 1e3,
            first_event_ms=self._first_event_ms,
            input_s=self._input_bytes / audio.frame_bytes / audio.sample_rate if audio else 0.0,
            output_s=self._output_s,
        )


@asynccontextmanager
async def run_task(
    services: Services, entry: ModelEntry, request: TaskRequest, *, busy_timeout_ms: int | None = None
) -> AsyncIterator[TaskRun]:
    """Takes a slot and the model, loading it first when needed, and opens the run.

    Whatever stands in the way is raised before the block is entered (`ServerBusy`, `ModelNotInstalled`,
    `ModelFailed`, `InsufficientMemory`), so that a reply can still have a status. The run's own errors come from
    `push` and from the iteration.
    """
    queued_at = trio.current_time()
    timeout_ms = effective_busy_timeout_ms(entry.busy_timeout_ms, busy_timeout_ms)
    async with services.slots.of(entry).slot(timeout_ms) as slot:
        admitted_at = trio.current_time()
        async with services.residency.lease(entry, timeout_ms=timeout_ms) as lease:
            queue_ms, load_ms = (admitted_at - queued_at) * 1e3, (trio.current_time() - admitted_at) * 1e3
            run = TaskRun(lease, slot, request, queue_ms=queue_ms, load_ms=load_ms)
            try:
                with _time_limit(entry, request):
                    yield run
                lease.answered = run.answered
            finally:
                await run.end()


@contextmanager
def _time_limit(entry: ModelEntry, request: TaskRequest) -> Iterator[None]:
    """Ends an offline run after the entry's `request_timeout_ms`. Live sessions have limits of their own."""
    limit_ms = entry.request_timeout_ms if request.mode == "offline" else 0
    with trio.move_on_after(limit_ms / 1e3 if limit_ms > 0 else float("inf")) as scope:
        yield
    if scope.cancelled_caught:
        raise RequestTimeout(f"the request took longer than the {limit_ms} ms that request_timeout_ms allows")
