"""A server whose only model is the family that echoes: real decoder, real worker processes, this process in control."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from tests.fakes.echo_voice import SPEC, run_echo_worker

from audiocpp.daemon.config.load import parse_config
from audiocpp.daemon.references import check_presets
from audiocpp.daemon.services import Services, build_services

LIMIT_S = 120.0


def echo_services(folder: Path, *, server: dict[str, Any] | None = None, **entry: Any) -> Services:
    """Not running yet. `server` and `entry` are keys of the configuration."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "echo.bin").write_bytes(b"\0")
    model = {"id": "echo", "family": "echo_voice", "path": "model", **entry}
    config = parse_config({"models": [model], "model_spec_override": str(SPEC), **(server or {})}, folder=folder)
    environ = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "STATE", "DATA")}
    return build_services(config, config_path=None, environ=environ, worker=run_echo_worker)


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Runs the services for the length of the block."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(services.serve)
            await check_presets(services.registry, services.codecs)
            yield
            nursery.cancel_scope.cancel()
