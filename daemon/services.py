"""What the daemon is made of, built once from the configuration and handed to every route."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio

from audiocpp import __version__
from audiocpp.daemon import paths
from audiocpp.daemon.codecs import Codecs
from audiocpp.daemon.config import ServerConfig
from audiocpp.daemon.entries import build_registry
from audiocpp.daemon.estimates import Estimates
from audiocpp.daemon.ledger import Ledger, MemoryLimits
from audiocpp.daemon.loading import Loader
from audiocpp.daemon.memory import memory_limits
from audiocpp.daemon.metrics import Metrics
from audiocpp.daemon.packages import PackageStore
from audiocpp.daemon.pressure import memory_pressure
from audiocpp.daemon.registry import Registry
from audiocpp.daemon.residents import Residents
from audiocpp.daemon.sharing import SharedModels
from audiocpp.daemon.slots import Slots
from audiocpp.daemon.supervisor import Supervisor
from audiocpp.daemon.worker_entry import run_worker
from audiocpp.daemon.workers import Entry
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.host import HostFacts, read_host
from audiocpp.engines.whole_files import remove_left_over


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """All parts of a running daemon. `started_at` is on trio's clock."""

    config: ServerConfig
    config_path: Path | None
    catalog: Catalog
    registry: Registry
    store: PackageStore
    slots: Slots
    models: SharedModels
    loader: Loader
    supervisor: Supervisor
    residency: Residents
    codecs: Codecs
    metrics: Metrics
    host: HostFacts
    spool_dir: Path
    graphs_dir: Path
    started_at: float
    version: str = __version__
    commit: str = ""

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
    host = read_host()
    metrics = Metrics()
    cache = paths.cache_folder(environ)
    graphs = cache / "graphs"
    estimates = Estimates(paths.state_folder(environ) / "memory.json")
    loader = Loader(config, host, store, estimates, graphs_dir=graphs)
    supervisor = Supervisor(
        make_load=loader.command,
        ledger=Ledger(
            _memory_limits(config),
            probe=memory_limits,
            estimate=loader.estimate,
            learn=loader.learn,
            pressure=memory_pressure,
        ),
        threads=host.cores,
        entry=worker,
        metrics=metrics,
        remove_unfinished=lambda: remove_left_over(graphs),
    )
    slots = Slots(on_idle=lambda: models.requests_ended())
    models = SharedModels(registry, slots, supervisor, loader)
    models.update()
    return Services(
        config=config,
        config_path=config_path,
        catalog=catalog,
        registry=registry,
        store=store,
        slots=slots,
        supervisor=supervisor,
        models=models,
        loader=loader,
        residency=Residents(registry, models, supervisor, slots, store),
        codecs=Codecs(metrics),
        metrics=metrics,
        host=host,
        spool_dir=cache / "spool",
        graphs_dir=graphs,
        started_at=trio.current_time(),
        commit=os.environ.get("AUDIOCPP_COMMIT", ""),
    )


def _memory_limits(config: ServerConfig) -> MemoryLimits:
    return MemoryLimits(
        max_models=config.max_loaded_models,
        max_resident_bytes=config.max_resident_memory_mb << 20,
        min_free_bytes=config.min_free_memory_mb << 20,
    )
