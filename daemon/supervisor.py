"""Performs what the residency planner decides: starts workers, loads, unloads, wakes those who wait.

It knows models by load key; entries and their ids are the business of `residents.py`.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import trio

from audiocpp.daemon.complaint import Complaint
from audiocpp.daemon.errors import DaemonError, ModelFailed, ServerBusy, ShuttingDown, WorkerDied
from audiocpp.daemon.eviction import ByteLimit, Decision
from audiocpp.daemon.lease import Lease
from audiocpp.daemon.ledger import Ledger, Row
from audiocpp.daemon.lifecycle import Model, State, Ticket
from audiocpp.daemon.load_progress import load_progress
from audiocpp.daemon.metrics import Metrics
from audiocpp.daemon.pool import Residence, WorkerPool
from audiocpp.daemon.reports import LoadReport, UnloadReport
from audiocpp.daemon.residency import Effect, Grant, Load, Planner, Refuse, Unload
from audiocpp.daemon.worker_entry import run_worker
from audiocpp.daemon.workers import Entry
from audiocpp.engines import wire

log = logging.getLogger(__name__)

PRESSURE_LOOK_S = 5.0
"""The kernel's figure is a mean of ten seconds; a look in half of that sees every rise."""


class Supervisor:
    """All models that can be resident.

    Args:
        make_load: load key -> the load command; raises `DaemonError` when files or a placement are missing.
        ledger: decides about room and is told what was measured.
        threads: compute threads of a worker.
        metrics: counts loads, unloads and deaths.
        remove_unfinished: removes what a process that has ended was writing; called in a thread.
        entry: what a worker process runs.
    """

    def __init__(
        self,
        *,
        make_load: Callable[[str], wire.LoadModel],
        ledger: Ledger,
        threads: int,
        metrics: Metrics | None = None,
        remove_unfinished: Callable[[], None] = lambda: None,
        entry: Entry = run_worker,
    ) -> None:
        self.planner = Planner((), ledger)
        self._ledger = ledger
        self._make_load = make_load
        self._metrics = metrics or Metrics()
        self._pool = WorkerPool(
            threads=threads,
            on_death=self._worker_ended,
            on_work=self._sample,
            remove_unfinished=remove_unfinished,
            entry=entry,
        )
        self._settled: dict[Ticket, trio.Event] = {}
        self._refused: dict[Ticket, DaemonError] = {}
        self._changed = trio.Event()
        self._graph_cache = Complaint(log)
        self._nursery: trio.Nursery | None = None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled; then ends all workers."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await nursery.start(self._pool.serve)
                nursery.start_soon(self._relieve_pressure)
                task_status.started()
                await self._expire_idle()
        finally:
            self._nursery = None

    async def _expire_idle(self) -> None:
        """Unloads models that have been idle for as long as they are kept."""
        while True:
            with trio.move_on_at(self.planner.next_expiry()):
                await self._changed.wait()
            self._perform(self.planner.expire(now=trio.current_time()))

    async def _relieve_pressure(self) -> None:
        """While memory is short on the machine, unloads idle models one by one; those in use stay."""
        while True:
            await trio.sleep(PRESSURE_LOOK_S)
            if self._ledger.under_pressure():
                effects = self.planner.shed()
                for effect in effects:
                    log.warning("memory is short: an idle model is unloaded", extra={"event": "shed", "effect": effect})
                self._perform(effects)
            else:
                self._perform(self.planner.retry())

    # Which models there are.

    def adopt(self, model: Model, *, worker_name: str) -> None:
        """Adds a model, or gives the one of that name its settings. `worker_name` is of its process."""
        self.planner.adopt(model)
        self._pool.know(model.name, worker_name=worker_name, limit_bytes=model.limit_bytes)
        self._notify()

    def retire(self, model: str) -> None:
        """Nobody will ask for the model any more; it leaves when those who have it are done."""
        self._perform(self.planner.retire(model, now=trio.current_time()))

    def forget_retired(self) -> list[str]:
        """Drops what is known of retired models that are gone, and tells which they were."""
        names = self.planner.forget_retired()
        for name in names:
            self._ledger.forget(name)
            self._pool.forget(name)
        return names

    def forecast(self, model: str) -> tuple[Decision, list[ByteLimit]]:
        """What a load of the model would come to now, and the limits it is held against. Changes nothing."""
        others = [other for other in self.planner.in_memory() if other.name != model]
        return self._ledger.decide(self.planner.models[model], others), self._ledger.byte_limits(others)

    # For requests.

    @asynccontextmanager
    async def lease(self, model: str, *, timeout_ms: int = 0) -> AsyncIterator[Lease]:
        """Holds a model resident, loading it first when it is not. Raises what kept it from being loaded.

        Waits at most `timeout_ms` for memory or a place (0: without bound), then raises `ServerBusy`. The load itself
        is not bounded by it.
        """
        ticket = Ticket(model)
        await self._resident(ticket, timeout_ms=timeout_ms)
        residence = self._pool.residence(model)
        assert residence is not None
        lease = Lease(model, residence.worker, condemn=self._pool.condemn)
        try:
            yield lease
        finally:
            self._sample(model)
            self._perform(self.planner.release(ticket, now=trio.current_time(), answered=lease.answered))

    async def _resident(self, ticket: Ticket, *, timeout_ms: int = 0) -> None:
        settled = self._settled[ticket] = trio.Event()
        try:
            self._perform(self.planner.request(ticket, now=trio.current_time()))
            with trio.move_on_after(timeout_ms / 1e3 if timeout_ms > 0 else float("inf")):
                await settled.wait()
            if not settled.is_set() and self.planner.waits_for_room(ticket.model):
                raise self._no_room(ticket, timeout_ms)
            await settled.wait()
        except BaseException:
            self._withdraw(ticket, settled)
            raise
        finally:
            del self._settled[ticket]
        if error := self._refused.pop(ticket, None):
            raise error

    def _no_room(self, ticket: Ticket, timeout_ms: int) -> ServerBusy:
        model = self.planner.models[ticket.model]
        why = "another model is being unloaded"
        if model.blocked is not None:
            needed, available = model.blocked.needed_bytes >> 20, model.blocked.available_bytes >> 20
            why = f"it needs {needed} MiB, {model.blocked.limit} allows {available} MiB and all other models are in use"
        return ServerBusy(f"no room for model {model.label!r} within {timeout_ms} ms: {why}", retry_after_s=1.0)

    def _withdraw(self, ticket: Ticket, settled: trio.Event) -> None:
        """Left while waiting; a grant that came in the same moment is given back."""
        if not settled.is_set():
            self._perform(self.planner.abandon(ticket))
        elif self._refused.pop(ticket, None) is None and ticket.leases:
            self._perform(self.planner.release(ticket, now=trio.current_time(), answered=False))

    # For the operator.

    async def load(self, model: str, *, label: str, timeout_ms: int = 0) -> LoadReport:
        """Loads a model and returns when it is resident. `label` names it in the report. Waits as `lease` does.

        Raises what kept it from being loaded.
        """
        started = trio.current_time()
        changed = self._state(model) not in (State.READY, State.BUSY)
        await self._resident(Ticket(model, leases=False), timeout_ms=timeout_ms)
        return LoadReport(
            id=label,
            changed=changed,
            seconds=trio.current_time() - started,
            resident_bytes=self._ledger.row(model).resident_bytes or 0,
        )

    async def unload(self, labels: Mapping[str, str], *, force: bool, timeout_s: float | None) -> UnloadReport:
        """Unloads models and returns when their memory is back. Running requests end first.

        Args:
            labels: load key -> what the report calls the model.
            force: fail running requests instead of waiting for them.
            timeout_s: longest wait for running requests; then they go on and `ServerBusy` is raised.
        """
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s) as waiting:
            await self._loads_settled(labels, force=force)
        if waiting.cancelled_caught:
            raise ServerBusy(f"still loading after {timeout_s:g} s: {', '.join(labels.values())}", retry_after_s=1.0)
        resident = [name for name in labels if self._state(name) in (State.READY, State.BUSY)]
        held = sum(self._current_bytes(name, exact=True) for name in resident)
        # Idle ones first: their memory is back while the others are still waited for.
        for name in sorted(resident, key=lambda name: self.planner.models[name].leases):
            self._perform(self.planner.drain(name))
            if force:
                self._pool.abort(name, WorkerDied("the operator unloaded the model during the request"))
        await self._drained(resident, timeout_s)
        return UnloadReport(
            unloaded=[labels[name] for name in resident],
            not_resident=[labels[name] for name in labels if name not in resident],
            released_bytes=held - sum(self._current_bytes(name, exact=True) for name in resident),
        )

    async def _loads_settled(self, names: Iterable[str], *, force: bool) -> None:
        while loading := [name for name in names if self._state(name) is State.LOADING]:
            if force:
                for name in loading:
                    self._pool.abort(name, WorkerDied("the operator unloaded the model while it was being loaded"))
                force = False  # once: whoever asks for the model meanwhile gets it
            await self._changed.wait()

    async def _drained(self, names: list[str], timeout_s: float | None) -> None:
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s):
            while any(self._state(name) is State.DRAINING for name in names):
                await self._changed.wait()
        busy = [name for name in names if self._state(name) is State.DRAINING]
        if busy:
            for name in busy:
                self._perform(self.planner.keep(name))
            labels = ", ".join(self.planner.models[name].label for name in busy)
            raise ServerBusy(f"still busy after {timeout_s:g} s and kept resident: {labels}", retry_after_s=1.0)

    def _state(self, name: str) -> State:
        """A model that was forgotten is as one that is not in memory."""
        model = self.planner.models.get(name)
        return State.UNLOADED if model is None else model.state

    # For the packages.

    def set_installed(self, name: str, *, installed: bool) -> None:
        """A model's package came or went."""
        self.planner.set_installed(name, installed=installed)
        self._notify()

    def residence(self, model: str) -> Residence | None:
        """What is known of a resident model, its memory measured now."""
        self._measure(model, exact=True)
        return self._pool.residence(model)

    def home(self, model: str) -> Residence | None:
        """Where a resident model lives; nothing is measured."""
        return self._pool.residence(model)

    def row(self, model: str) -> Row:
        """What the model holds, or what it is thought to need."""
        return self._ledger.row(model)

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
        load_progress(self.planner.models[model].label, 0.0)
        try:
            residence = await self._pool.load(self._make_load(model))
        except WorkerDied:
            return  # `_worker_ended` has told the planner
        except (DaemonError, OSError) as error:
            await self._load_failed(model, error)
            return
        self._measure(model, exact=True)
        label, held = self.planner.models[model].label, self._ledger.row(model).resident_bytes or 0
        log.info(
            "loaded %s in %.2f s, %d MiB resident",
            label,
            residence.loaded.load_s + residence.loaded.warm_up_s,
            held >> 20,
            extra={"event": "loaded", "model": label, "resident_bytes": held},
        )
        load_progress(label, 1.0)
        self._metrics.loaded(label)
        self._tell_of_cache(residence.loaded.graphs)
        self._perform(self.planner.loaded(model, now=trio.current_time()))

    def _tell_of_cache(self, graphs: Iterable[wire.GraphFacts]) -> None:
        for graph in graphs:
            if graph.uncached:
                self._graph_cache.say("graphs are optimised at each load, the cache is not used: %s", graph.uncached)

    async def _load_failed(self, model: str, error: Exception) -> None:
        if not isinstance(error, DaemonError):
            error = ModelFailed(f"no worker process could be started: {error}")
        label = self.planner.models[model].label
        log.error("loading %s failed: %s", label, error, extra={"event": "load_failed", "model": label})
        self._metrics.load_failed(label, error.code)
        await self._pool.leave(model)
        if self._state(model) is State.LOADING:
            self._perform(self.planner.load_failed(model, error, now=trio.current_time()))

    async def _unload(self, model: str) -> None:
        label, reason = self.planner.models[model].label, self.planner.models[model].leaving
        await self._pool.leave(model)
        self._ledger.forget(model)
        log.info("unloaded %s", label, extra={"event": "unloaded", "model": label, "reason": reason.value})
        self._metrics.unloaded(label, reason)
        if self._state(model) is State.DRAINING:
            self._perform(self.planner.unloaded(model))

    def _worker_ended(self, model: str, reason: str, error: DaemonError | None) -> None:
        label = self.planner.models[model].label
        log.error("%s: %s", label, reason, extra={"event": "worker_died", "model": label})
        self._metrics.worker_died(label)
        self._ledger.forget(model)
        self._perform(self.planner.died(model, reason, now=trio.current_time(), error=error))

    # Memory.

    def _current_bytes(self, model: str, *, exact: bool) -> int:
        return self._pool.measure(model, lambda other: self._ledger.row(other).resident_bytes or 0, exact=exact)

    def _measure(self, model: str, *, exact: bool) -> None:
        if self._pool.residence(model) is not None:
            self._ledger.measured(model, self._current_bytes(model, exact=exact))

    def _sample(self, model: str) -> None:
        self._measure(model, exact=False)
