"""Models in worker processes: which process holds which model, what it weighs, and whether it still answers.

A process ends with its last model, so that every byte comes back. Why a model is loaded is the supervisor's business.
"""

import logging
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import trio

from audiocpp.daemon.errors import DaemonError, InsufficientMemory, ShuttingDown, WorkerDied
from audiocpp.daemon.groups import WorkerGroup, WorkerGroups
from audiocpp.daemon.memory import MemoryGauge
from audiocpp.daemon.worker_entry import run_worker
from audiocpp.daemon.workers import Entry, Worker, start_worker
from audiocpp.engines import wire

log = logging.getLogger(__name__)

STOP_GRACE_S = 2.0
"""A worker that was asked to leave and has not within this time is killed."""

SILENCE_S = 15.0
"""A worker beats once a second. One that has been silent for so long is stopped or stuck, and is killed."""

WATCH_S = 0.1
"""How often workers are looked at; seldom while there are none."""

EMPTY_WATCH_S = 1.0

GROUP_HEADROOM = 1.1
"""The kernel's limit in parts of the configured one."""

DATA_HEADROOM_BYTES = 512 << 20
"""What a process may map beyond its limit: thread stacks and what it inherits count as mapped but are not held."""


class Residence(msgspec.Struct, frozen=True):
    """Where a loaded model lives. `gauge` reads the memory of its process; `asked` is the command it was loaded by."""

    worker: Worker
    asked: wire.LoadModel
    loaded: wire.Loaded
    gauge: MemoryGauge


@dataclass(slots=True)
class _Host:
    """A worker process and the models in it. `ready` is set when the process runs or could not be started."""

    ready: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)
    worker: Worker | None = None
    gauge: MemoryGauge | None = None
    group: WorkerGroup | None = None
    models: set[str] = field(default_factory=set)


class WorkerPool:
    """All worker processes of models.

    Args:
        threads: compute threads of a worker.
        on_death: called with a model, the reason and the error for its requests when its process has ended by itself.
        on_work: called with each model of a process at work, about ten times a second.
        remove_unfinished: called in a thread when a process has ended: removes what it was writing.
        entry: what a worker process runs.
    """

    def __init__(
        self,
        *,
        threads: int,
        on_death: Callable[[str, str, DaemonError | None], None],
        on_work: Callable[[str], None],
        remove_unfinished: Callable[[], None] = lambda: None,
        entry: Entry = run_worker,
    ) -> None:
        self._worker_names: dict[str, str] = {}
        self._limits: dict[str, int] = {}
        self._threads = threads
        self._on_death = on_death
        self._on_work = on_work
        self._remove_unfinished = remove_unfinished
        self._entry = entry
        self._groups = WorkerGroups()
        self._hosts: dict[str, _Host] = {}
        self._residences: dict[str, Residence] = {}
        self._nursery: trio.Nursery | None = None
        self._stopping = False

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled; then ends all workers."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                try:
                    await self._watch()
                finally:
                    self._stopping = True
        finally:
            self._nursery = None

    def know(self, model: str, *, worker_name: str, limit_bytes: int) -> None:
        """A model that may be loaded; known before, it keeps its process.

        Args:
            worker_name: name of its process; models with the same name share one.
            limit_bytes: most that it may hold; 0 means no limit.
        """
        self._worker_names.setdefault(model, worker_name)
        self._limits[model] = limit_bytes

    def forget(self, model: str) -> None:
        """A model that is in no process and will not be loaded again."""
        del self._worker_names[model], self._limits[model]

    def residence(self, model: str) -> Residence | None:
        """Where the model lives; None while it is not loaded."""
        return self._residences.get(model)

    async def load(self, command: wire.LoadModel) -> Residence:
        """Loads a model into its process, starting that first when needed.

        Raises `WorkerDied` when the process ended meanwhile (then `on_death` has been called), another `DaemonError`
        when the load failed, `OSError` when no process could be started. After the latter two call `leave`.
        """
        worker, gauge = await self._worker_for(command.model)
        loaded = await worker.load(command)
        residence = self._residences[command.model] = Residence(worker, command, loaded, gauge)
        return residence

    async def leave(self, model: str) -> None:
        """Closes a model that has no open run, and with the last one its process. Returns when it is gone."""
        residence = self._residences.pop(model, None)
        name = self._worker_names[model]
        host = self._hosts.get(name)
        if host is None or model not in host.models:
            return
        host.models.discard(model)
        if host.worker is None:
            return
        if not host.models:
            del self._hosts[name]  # whoever loads next gets a fresh process, not the one that is leaving
            await _end(host)
        elif residence is not None:
            with suppress(WorkerDied):  # then it is gone all the more
                await host.worker.unload(model)

    def abort(self, model: str, error: DaemonError) -> None:
        """Fails the model's open runs with `error`; their computation is cancelled.

        A model that is still being loaded goes with its process: a load cannot be interrupted otherwise.
        """
        residence = self._residences.get(model)
        if residence is not None:
            residence.worker.abort(model, error)
            return
        name = self._worker_names[model]
        host = self._hosts.get(name)
        if host is not None and host.worker is not None and model in host.models:
            host.worker.condemn(error)
            self._lose(name, host, error.message, error)

    def condemn(self, worker: Worker, error: DaemonError) -> None:
        """Ends a worker process for what it did. Its runs and loads fail with `error`, and nobody is sent to it."""
        worker.condemn(error)
        for name, host in list(self._hosts.items()):
            if host.worker is worker:
                self._lose(name, host, error.message, error)

    def measure(self, model: str, others: Callable[[str], int], *, exact: bool) -> int:
        """Private memory of the model's process, less what `others` says of each other model in it; 0 if not loaded.

        `exact` costs milliseconds while the model works (see `MemoryGauge`).
        """
        residence = self._residences.get(model)
        if residence is None:
            return 0
        try:
            whole = residence.gauge.exact() if exact else residence.gauge.quick()
        except ProcessLookupError:
            return 0
        neighbours = self._hosts[self._worker_names[model]].models - {model}
        return max(whole - sum(others(neighbour) for neighbour in neighbours), 0)

    async def _worker_for(self, model: str) -> tuple[Worker, MemoryGauge]:
        name = self._worker_names[model]
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host()
            host.models.add(model)
            await self._start(name, host)
        host.models.add(model)
        await host.ready.wait()
        if host.worker is None or host.gauge is None:
            raise OSError("the worker process could not be started")
        return host.worker, host.gauge

    async def _start(self, name: str, host: _Host) -> None:
        if self._nursery is None:
            raise ShuttingDown("the server is stopping")
        try:
            host.worker = await start_worker(
                name,
                threads=self._threads,
                nursery=self._nursery,
                on_end=lambda worker: self._ended(name, host, worker),
                entry=self._entry,
            )
            host.gauge = MemoryGauge(host.worker.pid)
            host.group = self._confine(name, host.worker.pid)
            host.worker.verdict = lambda: self._verdict(name, host)
        finally:
            if host.worker is None:
                del self._hosts[name]
            host.ready.set()

    def _limit_of(self, name: str) -> int:
        """What the models of a process may hold together; 0 when one of them has no limit."""
        limits = [self._limits[model] for model, worker_name in self._worker_names.items() if worker_name == name]
        return sum(limits) if all(limits) else 0

    def _confine(self, name: str, pid: int) -> WorkerGroup | None:
        """Has the kernel hold the process to its limit too, with some room: the watcher comes first, and explains."""
        limit = self._limit_of(name)
        if not limit:
            return None
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (limit + DATA_HEADROOM_BYTES, limit + DATA_HEADROOM_BYTES))
        return self._groups.make(pid, int(limit * GROUP_HEADROOM))

    def _verdict(self, name: str, host: _Host) -> InsufficientMemory | None:
        return self._over_limit(name) if host.group is not None and host.group.has_killed() else None

    def _over_limit(self, name: str) -> InsufficientMemory:
        return InsufficientMemory(
            f"the worker {name} needed more than the {self._limit_of(name) >> 20} MiB that memory_limit_mb allows it"
        )

    def _ended(self, name: str, host: _Host, worker: Worker) -> None:
        host.ended.set()
        if host.group is not None:
            host.group.remove()
        if self._stopping:
            return  # all are ended now, and nobody is to be told of deaths
        assert self._nursery is not None
        self._nursery.start_soon(trio.to_thread.run_sync, self._remove_unfinished)
        known = worker.exit_error if isinstance(worker.exit_error, InsufficientMemory) else None
        self._lose(name, host, f"its worker process ended: {worker.ended}", known)

    def _lose(self, name: str, host: _Host, reason: str, error: DaemonError | None) -> None:
        """The process is gone, or as good as gone: nobody shall be sent to it any more."""
        if self._hosts.get(name) is host:
            del self._hosts[name]
        lost, host.models = host.models, set()
        for model in lost:
            self._residences.pop(model, None)
            self._on_death(model, reason, error)

    # What workers may not do.

    async def _watch(self) -> None:
        while True:
            await trio.sleep(WATCH_S if self._hosts else EMPTY_WATCH_S)
            for name, host in list(self._hosts.items()):
                worker = host.worker
                if worker is None or worker.ended is not None:
                    continue
                offence = _silence(worker) or self._excess(name, host, worker)
                if offence is not None:
                    self.condemn(worker, offence)
                elif not worker.idle:
                    for model in host.models & self._residences.keys():
                        self._on_work(model)

    def _excess(self, name: str, host: _Host, worker: Worker) -> InsufficientMemory | None:
        limit = self._limit_of(name)
        if not limit or worker.idle or host.gauge is None:
            return None
        try:
            if host.gauge.quick() <= limit or host.gauge.exact() <= limit:
                return None
        except ProcessLookupError:
            return None
        return self._over_limit(name)


def _silence(worker: Worker) -> WorkerDied | None:
    silent_s = trio.current_time() - worker.heartbeat_at
    if silent_s <= SILENCE_S:
        return None
    return WorkerDied(f"the worker process of {worker.name} has not answered for {silent_s:.0f} s")


async def _end(host: _Host) -> None:
    assert host.worker is not None
    host.worker.stop()
    with trio.move_on_after(STOP_GRACE_S):
        await host.ended.wait()
    host.worker.kill()
    await host.ended.wait()
