"""Performs what the residency planner decides: starts workers, loads, unloads, wakes those who wait.

It knows models by load key; entries and their ids are the business of `residents.py`.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import trio

from audiocpp.daemon.errors import DaemonError, ServerBusy, ShuttingDown, WorkerDied
from audiocpp.daemon.memory import private_bytes
from audiocpp.daemon.residency import Effect, Grant, Load, Model, Planner, Refuse, State, Ticket, Unload
from audiocpp.daemon.worker_run import WorkerRun
from audiocpp.daemon.workers import Worker, start_worker
from audiocpp.engines import wire
from audiocpp.engines.tasks import TaskRequest

log = logging.getLogger(__name__)

STOP_GRACE_S = 2.0
"""A worker that was asked to leave and has not within this time is killed."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """`changed` is False when the model was resident already."""

    id: str
    changed: bool
    seconds: float
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class UnloadReport:
    """Model labels, and the private memory that ended with their workers, measured."""

    unloaded: list[str]
    not_resident: list[str]
    released_bytes: int


@dataclass(slots=True)
class Residence:
    """What is known of a model while its worker holds it."""

    worker: Worker
    loaded: wire.Loaded
    resident_bytes: int
    peak_bytes: int


@dataclass(slots=True)
class _Host:
    """A worker process and the models in it. `ready` is set when the process runs, or when it could not be started."""

    ready: trio.Event = field(default_factory=trio.Event)
    worker: Worker | None = None
    models: set[str] = field(default_factory=set)
    failure: BaseException | None = None
    ended: trio.Event = field(default_factory=trio.Event)


class Lease:
    """A resident model held by a request. It stays resident until the lease ends."""

    def __init__(self, model: str, worker: Worker) -> None:
        self._model = model
        self._worker = worker
        self.answered = False

    def open(self, request: TaskRequest) -> WorkerRun:
        """Opens a run. Raises `WorkerDied`."""
        return self._worker.open(self._model, request)

    def kill_worker(self, reason: str) -> None:
        """Ends the worker process: the last way to end a run that ignores its cancellation."""
        log.warning("worker %s is killed: %s", self._worker.name, reason)
        self._worker.kill()


class Supervisor:
    """All models that can be resident.

    Args:
        models: by load key.
        worker_names: load key -> name of the worker process.
        make_load: load key -> the load command; raises `DaemonError` when files or a placement are missing.
        threads: compute threads of a worker.
    """

    def __init__(
        self,
        models: Iterable[Model],
        *,
        worker_names: Mapping[str, str],
        make_load: Callable[[str], wire.LoadModel],
        threads: int,
    ) -> None:
        self.planner = Planner(models)
        self._worker_names = worker_names
        self._make_load = make_load
        self._threads = threads
        self._hosts: dict[str, _Host] = {}
        self._residences: dict[str, Residence] = {}
        self._settled: dict[Ticket, trio.Event] = {}
        self._refused: dict[Ticket, DaemonError] = {}
        self._changed = trio.Event()
        self._nursery: trio.Nursery | None = None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled; then ends all workers."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            for host in self._hosts.values():
                if host.worker is not None:
                    host.worker.kill()

    # For requests.

    @asynccontextmanager
    async def lease(self, model: str) -> AsyncIterator[Lease]:
        """Holds a model resident, loading it first when it is not. Raises what kept it from being loaded."""
        ticket = Ticket(model)
        await self._resident(ticket)
        lease = Lease(model, self._residences[model].worker)
        try:
            yield lease
        finally:
            self._measure_peak(model)
            self._perform(self.planner.release(ticket, now=trio.current_time(), answered=lease.answered))

    async def _resident(self, ticket: Ticket) -> None:
        settled = self._settled[ticket] = trio.Event()
        try:
            self._perform(self.planner.request(ticket, now=trio.current_time()))
            await settled.wait()
        except trio.Cancelled:
            self._withdraw(ticket, settled)
            raise
        finally:
            del self._settled[ticket]
        if error := self._refused.pop(ticket, None):
            raise error

    def _withdraw(self, ticket: Ticket, settled: trio.Event) -> None:
        """Cancelled while waiting; a grant that came in the same moment is given back."""
        if not settled.is_set():
            self.planner.abandon(ticket)
        elif self._refused.pop(ticket, None) is None and ticket.leases:
            self._perform(self.planner.release(ticket, now=trio.current_time(), answered=False))

    # For the operator.

    async def load(self, model: str, *, label: str) -> LoadReport:
        """Loads a model and returns when it is resident. `label` names it in the report.

        Raises what kept it from being loaded.
        """
        started = trio.current_time()
        changed = self.planner.models[model].state not in (State.READY, State.BUSY)
        await self._resident(Ticket(model, leases=False))
        residence = self._residences.get(model)
        return LoadReport(
            id=label,
            changed=changed,
            seconds=trio.current_time() - started,
            resident_bytes=residence.resident_bytes if residence else 0,
        )

    async def unload(self, labels: Mapping[str, str], *, force: bool, timeout_s: float | None) -> UnloadReport:
        """Unloads models and returns when their memory is back. Running requests end first.

        Args:
            labels: load key -> what the report calls the model.
            force: fail running requests instead of waiting for them.
            timeout_s: longest wait for running requests; then they go on and `ServerBusy` is raised.
        """
        await self._loads_settled(labels)
        resident = [name for name in labels if self.planner.models[name].state in (State.READY, State.BUSY)]
        held = sum(self._current_bytes(name) for name in resident)
        # Idle ones first: their memory is back while the others are still waited for.
        for name in sorted(resident, key=lambda name: self.planner.models[name].leases):
            self._perform(self.planner.drain(name))
            if force:
                self._abort(name)
        await self._drained(resident, timeout_s)
        return UnloadReport(
            unloaded=[labels[name] for name in resident],
            not_resident=[labels[name] for name in labels if name not in resident],
            released_bytes=held - sum(self._current_bytes(name) for name in resident),
        )

    async def _loads_settled(self, names: Iterable[str]) -> None:
        while any(self.planner.models[name].state is State.LOADING for name in names):
            await self._changed.wait()

    async def _drained(self, names: list[str], timeout_s: float | None) -> None:
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s):
            while any(self.planner.models[name].state is State.DRAINING for name in names):
                await self._changed.wait()
        busy = [name for name in names if self.planner.models[name].state is State.DRAINING]
        if busy:
            for name in busy:
                self._perform(self.planner.keep(name))
            labels = ", ".join(self.planner.models[name].label for name in busy)
            raise ServerBusy(f"still busy after {timeout_s:g} s and kept resident: {labels}", retry_after_s=1.0)

    def _abort(self, model: str) -> None:
        residence = self._residences.get(model)
        if residence is not None:
            residence.worker.abort(model, WorkerDied("the operator unloaded the model during the request"))

    # For the packages.

    def set_installed(self, name: str, *, installed: bool) -> None:
        """A model's package came or went."""
        self.planner.set_installed(name, installed=installed)
        self._notify()

    def residence(self, model: str) -> Residence | None:
        """What is known of a resident model, its memory measured now."""
        residence = self._residences.get(model)
        if residence is not None:
            self._measure_peak(model)
        return residence

    # Effects.

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Load(model):
                    self._start(self._load, model)
                case Unload(model):
                    self._start(self._unload, model)
                case Grant(ticket):
                    self._settled[ticket].set()
                case Refuse(ticket, error):
                    self._refused[ticket] = error
                    self._settled[ticket].set()
        self._notify()

    def _start(self, operation: Callable[[str], object], model: str) -> None:
        if self._nursery is None:
            raise ShuttingDown("the server is stopping")
        self._nursery.start_soon(operation, model)  # type: ignore[arg-type]

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _load(self, model: str) -> None:
        label = self.planner.models[model].label
        try:
            command = self._make_load(model)
            worker = await self._worker_for(model)
            loaded = await worker.load(command)
        except WorkerDied:
            return  # `_worker_ended` has told the planner
        except (DaemonError, OSError) as error:
            await self._load_failed(model, error)
            return
        held = private_bytes(worker.pid)
        self._residences[model] = Residence(worker, loaded, resident_bytes=held, peak_bytes=held)
        log.info(
            "loaded %s in %.2f s, %d MiB resident",
            label,
            loaded.load_s + loaded.warm_up_s,
            held >> 20,
            extra={"event": "loaded", "model": label, "resident_bytes": held},
        )
        self._perform(self.planner.loaded(model, now=trio.current_time()))

    async def _load_failed(self, model: str, error: Exception) -> None:
        if not isinstance(error, DaemonError):
            error = WorkerDied(f"the worker process could not be started: {error}")
        label = self.planner.models[model].label
        log.error("loading %s failed: %s", label, error, extra={"event": "load_failed", "model": label})
        await self._leave_worker(model)
        self._perform(self.planner.load_failed(model, error, now=trio.current_time()))

    async def _worker_for(self, model: str) -> Worker:
        name = self._worker_names[model]
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host()
            host.models.add(model)
            await self._start_worker(name, host)
        host.models.add(model)
        await host.ready.wait()
        if host.worker is None:
            raise WorkerDied(f"the worker process could not be started: {host.failure}")
        return host.worker

    async def _start_worker(self, name: str, host: _Host) -> None:
        assert self._nursery is not None
        try:
            host.worker = await start_worker(
                name,
                threads=self._threads,
                nursery=self._nursery,
                on_end=lambda worker: self._worker_ended(name, worker),
            )
        except OSError as error:
            host.failure = error
            del self._hosts[name]
            raise
        finally:
            host.ready.set()

    async def _unload(self, model: str) -> None:
        await self._leave_worker(model)
        self._residences.pop(model, None)
        label = self.planner.models[model].label
        log.info("unloaded %s", label, extra={"event": "unloaded", "model": label})
        if self.planner.models[model].state is State.DRAINING:
            self._perform(self.planner.unloaded(model))

    async def _leave_worker(self, model: str) -> None:
        """Closes the model, and with the last one its worker process, so that every byte comes back."""
        host = self._hosts.get(self._worker_names[model])
        if host is None or model not in host.models:
            return
        host.models.discard(model)
        if host.worker is None:
            return
        if host.models:
            if model in self._residences:
                with suppress(WorkerDied):  # then it is gone all the more
                    await host.worker.unload(model)
            return
        host.worker.stop()
        with trio.move_on_after(STOP_GRACE_S):
            await host.ended.wait()
        host.worker.kill()
        await host.ended.wait()

    def _worker_ended(self, name: str, worker: Worker) -> None:
        host = self._hosts.pop(name)
        host.ended.set()
        reason = f"its worker process ended: {worker.ended}"
        for model in host.models:
            self._residences.pop(model, None)
            label = self.planner.models[model].label
            log.error("%s: %s", label, reason, extra={"event": "worker_died", "model": label})
            self._perform(self.planner.died(model, reason, now=trio.current_time()))
        self._notify()

    # Memory.

    def _current_bytes(self, model: str) -> int:
        residence = self._residences.get(model)
        if residence is None:
            return 0
        try:
            return private_bytes(residence.worker.pid)
        except ProcessLookupError:
            return 0

    def _measure_peak(self, model: str) -> None:
        residence = self._residences.get(model)
        if residence is not None:
            residence.resident_bytes = self._current_bytes(model)
            residence.peak_bytes = max(residence.peak_bytes, residence.resident_bytes)
