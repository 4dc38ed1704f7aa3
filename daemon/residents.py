"""Which entries are in memory: the supervisor's models under the names that clients and operators use."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

import msgspec
import trio

from audiocpp.daemon.busy import is_overdue
from audiocpp.daemon.errors import RequestTimeout
from audiocpp.daemon.lease import Lease
from audiocpp.daemon.lifecycle import Model, State
from audiocpp.daemon.loading import not_installed
from audiocpp.daemon.packages import PackageStore
from audiocpp.daemon.pool import Residence
from audiocpp.daemon.registry import ModelEntry, Registry
from audiocpp.daemon.reports import LoadReport, UnloadReport
from audiocpp.daemon.sharing import SharedModels
from audiocpp.daemon.slots import Slots
from audiocpp.daemon.supervisor import Supervisor
from audiocpp.engines import wire


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as operators see it. Figures of memory are of its worker process, measured; None while not resident.

    `reserved_slots` are kept for live clients that lost their connection.
    `max_parallel_slots`: the most that the family allows; None while not resident.
    `longest_run_s` is the age of the oldest request that holds a slot; `overdue`: requests would not wait that long.
    `placement` is what the runtime reported after loading, `runtime:Provider+Provider`.
    """

    id: str
    state: State
    slots: int
    active_slots: int
    reserved_slots: int
    queued_requests: int
    max_parallel_slots: int | None
    resident_bytes: int | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    idle_s: float | None = None
    longest_run_s: float | None = None
    overdue: bool = False
    placement: str | None = None
    graphs: tuple[wire.GraphFacts, ...] = ()
    pid: int | None = None
    reason: str | None = None
    retry_after_s: float | None = None


class PlacedModel(msgspec.Struct, frozen=True, kw_only=True):
    """Where a resident entry was to run, and where it does.

    `requested` are the providers that its load asked for, best first; `effective` those that the runtime reported for
    its graphs. `as_requested`: every graph has all that were asked for.
    """

    model: str
    backend: str
    device: int
    requested: tuple[str, ...]
    effective: tuple[str, ...]
    as_requested: bool


class Residents:
    """Entries in memory."""

    def __init__(
        self, registry: Registry, models: SharedModels, supervisor: Supervisor, slots: Slots, store: PackageStore
    ) -> None:
        self._registry = registry
        self._models = models
        self._supervisor = supervisor
        self._slots = slots
        self._store = store

    def lease(self, entry: ModelEntry, *, timeout_ms: int = 0) -> AbstractAsyncContextManager[Lease]:
        """Holds the entry's model resident, loading it first when it is not. See `Supervisor.lease`.

        An entry that was replaced meanwhile still has its model: the caller holds one of its slots.
        """
        if not self._registry.has(entry):
            self._models.update()
        self.look_for_package(entry)
        return self._supervisor.lease(entry.load_key, timeout_ms=timeout_ms)

    async def load(self, model_id: str, *, timeout_ms: int = 0, timeout_s: float | None = None) -> LoadReport:
        """Makes an entry resident, waiting for room as `lease` does. After `timeout_s` raises `RequestTimeout`; the
        load goes on."""
        entry = self._registry.find(model_id)
        self.look_for_package(entry)
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s):
            return await self._supervisor.load(entry.load_key, label=entry.id, timeout_ms=timeout_ms)
        raise RequestTimeout(f"model {entry.id!r} is still loading after {timeout_s:g} s")

    async def unload(
        self, model_ids: Iterable[str], *, force: bool = False, timeout_s: float | None = None
    ) -> UnloadReport:
        """Unloads entries' models. An entry that shares its model with others takes it from them too.

        Live sessions whose client is not there are not waited for.
        """
        entries = [self._registry.find(model_id) for model_id in model_ids]
        keys = {entry.load_key for entry in entries}
        for entry in self._registry.entries.values():
            if entry.load_key in keys:
                self._slots.of(entry).give_up_reserved()
        return await self._supervisor.unload(
            {entry.load_key: entry.id for entry in reversed(entries)}, force=force, timeout_s=timeout_s
        )

    def look_for_package(self, entry: ModelEntry) -> bool:
        """Whether the entry's files are here now. They may have come since the start."""
        installed = not self._store.missing_of(entry.spec, entry.package, folder=entry.files_dir)
        self._supervisor.set_installed(entry.load_key, installed=installed)
        return installed

    def require_package(self, entry: ModelEntry) -> None:
        """Raises `ModelNotInstalled` when the entry's files are not here."""
        if not self.look_for_package(entry):
            raise not_installed(entry, self._store)

    def snapshot(self) -> list[ModelStatus]:
        """All entries, in the order of the configuration."""
        return [self._status(entry) for entry in self._registry.entries.values()]

    def status_of(self, model_id: str) -> ModelStatus:
        """One entry. Raises `ModelNotFound`."""
        return self._status(self._registry.find(model_id))

    def placements(self) -> list[PlacedModel]:
        """The resident entries, in the order of the configuration. Nothing is measured."""
        homes = ((entry, self._supervisor.home(entry.load_key)) for entry in self._registry.entries.values())
        return [placed(entry, home) for entry, home in homes if home is not None]

    def _status(self, entry: ModelEntry) -> ModelStatus:
        installed = self.look_for_package(entry)
        model = self._supervisor.planner.models[entry.load_key]
        residence = self._supervisor.residence(entry.load_key)
        row = self._supervisor.row(entry.load_key)
        queue = self._slots.of(entry)
        idle = model.state is State.READY
        longest_run_s = queue.longest_held_s if queue.active else None
        return ModelStatus(
            id=entry.id,
            state=model.state,
            slots=queue.slots,
            active_slots=queue.active,
            reserved_slots=queue.reserved,
            queued_requests=queue.queued,
            max_parallel_slots=entry.max_slots if residence else None,
            resident_bytes=row.resident_bytes if residence else None,
            peak_bytes=row.peak_bytes if residence else None,
            limit_bytes=entry.memory_limit_mb << 20 or None,
            idle_s=trio.current_time() - model.idle_since if idle else None,
            longest_run_s=longest_run_s,
            overdue=longest_run_s is not None and is_overdue(longest_run_s * 1e3, entry.busy_timeout_ms),
            placement=placement_text(residence) if residence else None,
            graphs=tuple(residence.loaded.graphs) if residence else (),
            pid=residence.worker.pid if residence else None,
            reason=self._reason(entry, model, installed=installed),
            retry_after_s=max(model.retry_at - trio.current_time(), 0.0) if model.state is State.FAILED else None,
        )

    def _reason(self, entry: ModelEntry, model: Model, *, installed: bool) -> str | None:
        if model.state is State.FAILED:
            return model.reason
        if installed:
            return None
        return not_installed(entry, self._store).message


def placed(entry: ModelEntry, home: Residence) -> PlacedModel:
    """What `home` says of where `entry` runs."""
    graphs = home.loaded.graphs
    requested = tuple(name for name, _ in home.asked.providers)
    return PlacedModel(
        model=entry.id,
        backend=entry.backend,
        device=entry.device,
        requested=requested,
        effective=tuple(dict.fromkeys(provider for graph in graphs for provider in graph.providers)),
        as_requested=all(set(requested) <= set(graph.providers) for graph in graphs),
    )


def placement_text(residence: Residence) -> str:
    """`onnxruntime:CPUExecutionProvider`, several providers joined by `+`."""
    graphs = residence.loaded.graphs
    runtimes = sorted({graph.runtime for graph in graphs})
    providers = dict.fromkeys(provider for graph in graphs for provider in graph.providers)
    return f"{'+'.join(runtimes)}:{'+'.join(providers)}"
