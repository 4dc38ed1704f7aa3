"""What routes reach the rest of the daemon through. It is attached to the app when the app is made."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import trio
from quart import current_app

from audiocpp.daemon.errors import RequestTimeout
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.services import Services
from audiocpp.daemon.spool import Spool
from audiocpp.daemon.tasks import RunTiming, TaskRun
from audiocpp.daemon.timings import timings
from audiocpp.engines.tasks import TaskRequest

EXTENSION = "audiocpp"

RunTask = Callable[..., AbstractAsyncContextManager[TaskRun]]
"""`daemon.tasks.run_task`, or what a test puts in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The daemon as routes see it. `api_keys` is empty when there is no authentication."""

    services: Services
    run_task: RunTask
    spool: Spool
    api_keys: frozenset[str]

    @asynccontextmanager
    async def run(
        self, entry: ModelEntry, request: TaskRequest, *, busy_timeout_ms: int | None
    ) -> AsyncIterator[TaskRun]:
        """`run_task` under the entry's request timeout, which counts from the time the run is open."""
        async with self._open(entry, request, busy_timeout_ms) as run:
            limit_s = entry.request_timeout_ms / 1e3 or float("inf")
            with trio.move_on_after(limit_s) as deadline:
                yield run
            if deadline.cancelled_caught:
                raise RequestTimeout(f"the request ran longer than {limit_s:g} s (request_timeout_ms)")
            timing = run.timing
            timings().add("run", timing.wall_ms)
            self._count(entry, timing)

    @asynccontextmanager
    async def session(
        self, entry: ModelEntry, request: TaskRequest, *, busy_timeout_ms: int | None
    ) -> AsyncIterator[TaskRun]:
        """`run_task` for a live session, which has limits of its own and takes as long as its client speaks."""
        async with self._open(entry, request, busy_timeout_ms) as run:
            with self.services.metrics.session(entry.id):
                yield run

    @asynccontextmanager
    async def _open(
        self, entry: ModelEntry, request: TaskRequest, busy_timeout_ms: int | None
    ) -> AsyncIterator[TaskRun]:
        times = timings()
        times.model = entry.id
        async with self.run_task(self.services, entry, request, busy_timeout_ms=busy_timeout_ms) as run:
            times.add("queue", run.timing.queue_ms)
            times.add("load", run.timing.load_ms)
            yield run

    def _count(self, entry: ModelEntry, timing: RunTiming) -> None:
        waited_ms = timing.queue_ms + timing.load_ms
        first_ms = timing.first_event_ms
        audio_s = timing.output_s or timing.input_s
        self.services.metrics.ran(
            entry.id,
            first_output_s=None if first_ms is None else (waited_ms + first_ms) / 1e3,
            real_time_factor=timing.wall_ms / 1e3 / audio_s if audio_s else None,
        )


def backend() -> Backend:
    """The backend of the app that serves the current request."""
    found = current_app.extensions[EXTENSION]
    assert isinstance(found, Backend)
    return found
