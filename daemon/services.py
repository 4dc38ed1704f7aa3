"""What the daemon is made of, built once from the configuration and handed to every route."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import trio

from audiocpp import __version__
from audiocpp.daemon import paths
from audiocpp.daemon.admission import SlotQueue
from audiocpp.daemon.codecs import Codecs
from audiocpp.daemon.config import ServerConfig
from audiocpp.daemon.entries import build_registry
from audiocpp.daemon.errors import ModelFailed, ModelNotInstalled
from audiocpp.daemon.estimates import Estimates, Measurement, estimate_by_rule
from audiocpp.daemon.ledger import Ledger, MemoryLimits
from audiocpp.daemon.lifecycle import Model
from audiocpp.daemon.memory import memory_limits
from audiocpp.daemon.metrics import Metrics
from audiocpp.daemon.packages import PackageStore
from audiocpp.daemon.pressure import memory_pressure
from audiocpp.daemon.registry import ModelEntry, Registry
from audiocpp.daemon.residents import Residents, not_installed
from audiocpp.daemon.supervisor import Supervisor
from audiocpp.daemon.worker_entry import run_worker
from audiocpp.daemon.workers import Entry
from audiocpp.engines import wire
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.host import HostFacts, read_host
from audiocpp.engines.placement import Placement, PlacementChoice, choose_placement
from audiocpp.engines.whole_files import remove_left_over


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """All parts of a running daemon. `started_at` is on trio's clock."""

    config: ServerConfig
    config_path: Path | None
    catalog: Catalog
    registry: Registry
    store: PackageStore
    slots: Mapping[str, SlotQueue]
    supervisor: Supervisor
    residency: Residents
    codecs: Codecs
    metrics: Metrics
    host: HostFacts
    estimates: Estimates
    spool_dir: Path
    graphs_dir: Path
    started_at: float
    version: str = __version__
    commit: str = ""

    def is_learned(self, entry: ModelEntry) -> bool:
        """Whether the entry's memory has been measured here, with these files and options."""
        return self.estimates.learned(_estimate_key(entry)) is not None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs what must run for requests to be served, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.supervisor.serve)
            await nursery.start(self.codecs.serve)
            task_status.started()


def build_services(
    config: ServerConfig, *, config_path: Path | None, environ: Mapping[str, str], worker: Entry = run_worker
) -> Services:
    """Makes the parts; nothing runs yet. `worker` is what a worker process runs.

    Raises `ConfigError` or `SpecError`.
    """
    catalog = Catalog.load(*filter(None, [config.model_spec_override]))
    registry = build_registry(config, catalog)
    store = PackageStore(paths.models_root(environ, flag=config.models_root), catalog)
    slots = {entry.id: SlotQueue(entry.id, entry.slots) for entry in registry.entries.values()}
    host = read_host()
    metrics = Metrics()
    cache = paths.cache_folder(environ)
    sharing: dict[str, list[ModelEntry]] = {}
    for entry in registry.entries.values():
        sharing.setdefault(entry.load_key, []).append(entry)
    by_key = {key: entries[0] for key, entries in sharing.items()}
    graphs = cache / "graphs"
    estimates = Estimates(paths.state_folder(environ) / "memory.json")
    supervisor = Supervisor(
        [_model(key, entries) for key, entries in sharing.items()],
        worker_names={key: entry.worker_name for key, entry in by_key.items()},
        make_load=lambda key: _load_command(by_key[key], store, host, config, graphs),
        ledger=Ledger(
            _memory_limits(config),
            probe=memory_limits,
            estimate=lambda key: _estimate(by_key[key], store, estimates),
            learn=lambda key, measured: estimates.learn(_estimate_key(by_key[key]), measured),
            pressure=memory_pressure,
        ),
        threads=host.cores,
        entry=worker,
        metrics=metrics,
        remove_unfinished=lambda: remove_left_over(graphs),
    )
    return Services(
        config=config,
        config_path=config_path,
        catalog=catalog,
        registry=registry,
        store=store,
        slots=slots,
        supervisor=supervisor,
        residency=Residents(registry, supervisor, slots, store),
        codecs=Codecs(metrics),
        metrics=metrics,
        host=host,
        estimates=estimates,
        spool_dir=cache / "spool",
        graphs_dir=graphs,
        started_at=trio.current_time(),
        commit=os.environ.get("AUDIOCPP_COMMIT", ""),
    )


def _model(name: str, entries: Sequence[ModelEntry]) -> Model:
    """One model of the entries that share it: it is kept as long as any of them wants it."""
    keep_alives = [entry.keep_alive_ms for entry in entries]
    return Model(
        name=name,
        label=entries[0].id,
        pull_command=f"audiocppctl pull {entries[0].package.id}",
        pinned=any(entry.pin for entry in entries),
        keep_alive_s=None if -1 in keep_alives else max(keep_alives) / 1e3,
        limit_bytes=max(entry.memory_limit_mb for entry in entries) << 20,
    )


def _memory_limits(config: ServerConfig) -> MemoryLimits:
    return MemoryLimits(
        max_models=config.max_loaded_models,
        max_resident_bytes=config.max_resident_memory_mb << 20,
        min_free_bytes=config.min_free_memory_mb << 20,
    )


def _estimate_key(entry: ModelEntry) -> str:
    """The load key says options and placement; the files' own digests say what is loaded."""
    files = hashlib.sha256("".join(file.sha256 for file in entry.package.files).encode()).hexdigest()
    return f"{entry.load_key}@{files[:12]}"


def _estimate(entry: ModelEntry, store: PackageStore, estimates: Estimates) -> Measurement:
    if (learned := estimates.learned(_estimate_key(entry))) is not None:
        return learned
    try:
        files = store.files(entry.spec, entry.package, folder=entry.files_dir)
    except ModelNotInstalled:
        return Measurement(loaded_bytes=0)
    return Measurement(loaded_bytes=estimate_by_rule(files.values()))


def _load_command(
    entry: ModelEntry, store: PackageStore, host: HostFacts, config: ServerConfig, graphs: Path
) -> wire.LoadModel:
    """Raises `ModelNotInstalled`, or `ModelFailed` when no placement is possible."""
    placement = _placement(entry, host, config)
    if store.missing_of(entry.spec, entry.package, folder=entry.files_dir):
        raise not_installed(entry, store)
    files = store.files(entry.spec, entry.package, backend=placement.backend, folder=entry.files_dir)
    return wire.LoadModel(
        model=entry.load_key,
        family=entry.family,
        files={role: str(path) for role, path in files.items()},
        runtime=placement.runtime,
        providers=[(name, dict(options)) for name, options in placement.providers],
        threads=placement.threads,
        options=dict(entry.options),
        cache_dir=str(graphs),
    )


def _placement(entry: ModelEntry, host: HostFacts, config: ServerConfig) -> Placement:
    choice = placements(entry, host, config)
    if not choice.placements:
        raise ModelFailed(f"model {entry.id!r} cannot be placed: {choice.explain()}")
    return choice.placements[0]


def placements(entry: ModelEntry, host: HostFacts, config: ServerConfig) -> PlacementChoice:
    """Where the entry can run here, best first, and why not elsewhere."""
    own = entry.options.get("threads")
    return choose_placement(
        entry.spec,
        entry.package,
        host,
        wanted=entry.backend,
        device=entry.device,
        threads=config.threads if own is None else int(own),
    )
