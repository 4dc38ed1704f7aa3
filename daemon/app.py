"""Puts the daemon together and runs it: services, the public API, the admin API, until a signal ends it."""

import logging
import os
import signal
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import trio

from audiocpp.control.peer import read_peer_credentials
from audiocpp.control.server import create_admin_app
from audiocpp.daemon import paths
from audiocpp.daemon.admin import Admin
from audiocpp.daemon.config import ServerConfig
from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.frontends import check_frontend
from audiocpp.daemon.http.app import create_app
from audiocpp.daemon.http.live import RAW_BODIES
from audiocpp.daemon.references import check_presets
from audiocpp.daemon.services import Services, build_services
from audiocpp.daemon.serving import Listener, ServingLimits, open_tcp_listener, open_unix_listener, serve
from audiocpp.daemon.spool import UPLOADS
from audiocpp.engines.whole_files import remove_left_over

log = logging.getLogger(__name__)

ADMIN_LIMITS = ServingLimits(max_connections=64)


async def run_daemon(
    config: ServerConfig, *, config_path: Path | None, environ: Mapping[str, str], announce: Callable[[str], None]
) -> None:
    """Serves until SIGINT or SIGTERM, then until running requests are done or their deadline has passed.

    `announce` is called with the public base URL once both planes accept. Raises `ConfigError`, `SpecError`, `OSError`
    (an address that cannot be bound) before that.
    """
    tls = check_frontend(config)
    services = build_services(config, config_path=config_path, environ=environ)
    remove_left_over(services.spool_dir, UPLOADS)
    remove_left_over(services.graphs_dir)
    public = open_tcp_listener(config.host, config.port)
    admin_path = config.admin_socket or paths.admin_socket(environ)
    admin_path.parent.mkdir(parents=True, exist_ok=True)
    admin = open_unix_listener(admin_path)
    try:
        await _serve(services, public, admin, announce, tls=tls)
    finally:
        admin_path.unlink(missing_ok=True)


async def _serve(
    services: Services,
    public: Listener,
    admin: Listener,
    announce: Callable[[str], None],
    *,
    tls: ssl.SSLContext | None,
) -> None:
    url = f"{'http' if tls is None else 'https'}://{public.address}"
    stop = trio.Event()
    chunks = [entry.live_ingest.max_chunk_bytes for entry in services.registry.entries.values()]
    limits = ServingLimits(
        max_connections=services.config.max_connections,
        max_message_bytes=max(chunks, default=services.config.live_ingest.max_chunk_bytes),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(services.serve)
        await check_presets(services.registry, services.codecs)
        backend = Admin(services, url=url, pid=os.getpid(), nursery=nursery)
        async with trio.open_nursery() as planes:
            await planes.start(
                partial(serve, create_app(services), [public], limits=limits, stop=stop, raw_bodies=RAW_BODIES, tls=tls)
            )
            await planes.start(
                partial(
                    serve,
                    create_admin_app(backend),
                    [admin],
                    limits=ADMIN_LIMITS,
                    stop=stop,
                    read_peer=read_peer_credentials,
                )
            )
            await nursery.start(_stop_on_signal, stop, planes.cancel_scope)
            announce(url)
            nursery.start_soon(_load_eager, services)
        nursery.cancel_scope.cancel()


async def _load_eager(services: Services) -> None:
    """Loads, in order, what the configuration does not call lazy, as far as there are places.

    A failure is a state of the model, not an end.
    """
    places = services.config.max_loaded_models
    eager = {entry.load_key: entry for entry in services.registry.entries.values() if not entry.lazy}
    for number, entry in enumerate(eager.values(), start=1):
        if places and number > places:
            log.info("%s is loaded on first use: max_loaded_models is %d", entry.id, places, extra={"model": entry.id})
            continue
        try:
            await services.residency.load(entry.id)
        except DaemonError as error:
            log.warning("%s was not loaded at the start: %s", entry.id, error.message, extra={"model": entry.id})


async def _stop_on_signal(
    stop: trio.Event, planes: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The first signal stops gracefully, the second at once. A hang-up of the terminal ends nothing."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                log.info("SIGHUP is ignored: the configuration is read at the start only")
                continue
            log.info("stopping: received %s", signal.Signals(number).name)
            if stop.is_set():
                planes.cancel()
            stop.set()
