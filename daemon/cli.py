"""The command `audiocppd`. Its flags are the reference's, and ours.

Every worker process re-imports the module that holds `__main__`, so nothing heavy is imported at the top.
"""

import argparse
import gc
import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "audiocpp_server"
"""The reference's name: launchers read it in the ready line and in the help."""

INTERRUPTED = 128 + signal.SIGINT
"""The exit status that shells give to a program that Ctrl-C has ended."""

CONFIG_FLAGS = (
    "host",
    "port",
    "backend",
    "device",
    "threads",
    "ui",
    "ui_management",
    "busy_timeout_ms",
    "max_loaded_models",
    "idle_unload_ms",
    "min_free_memory_mb",
    "resample_kernel_cache_mb",
    "model_spec_override",
    "voice_dir",
    "cors_origins",
    "models_root",
    "admin_socket",
)
"""Flags that stand for the configuration key of the same name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the daemon; the exit status. Any error before it serves is one line on stderr and status 1."""
    flags = _parser().parse_args(argv)
    try:
        return _perform(flags)
    except KeyboardInterrupt:  # before signals are listened for: while modules are imported, files read
        return INTERRUPTED


def _perform(flags: argparse.Namespace) -> int:
    if flags.version:
        from audiocpp import __version__

        print(f"audiocppd {__version__}")  # noqa: T201
        return 0
    if flags.config is None and not flags.ui:
        return _fail("--config FILE or --ui is required")
    if not flags.check_config:
        from audiocpp.daemon.fork_server import start_fork_server

        start_fork_server()
    gc.disable()  # until everything is imported: collections among the new modules find nothing and take a fifth
    return _run(flags)


def _run(flags: argparse.Namespace) -> int:
    from audiocpp.daemon.config import effective, load_config
    from audiocpp.daemon.errors import ConfigError
    from audiocpp.daemon.logs import configure_logs
    from audiocpp.engines.errors import SpecError

    logs = configure_logs(getattr(logging, flags.log_level.upper()), file=flags.log_file)
    try:
        overrides = {name: getattr(flags, name) for name in CONFIG_FLAGS}
        config = load_config(flags.config, overrides, strict=flags.strict_config)
        if flags.check_config:
            return _check(effective(config))
        return _serve(config, flags.config)
    except (ConfigError, SpecError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(_described(error))
    finally:
        logs.close()


def _serve(config: object, config_path: Path | None) -> int:
    import os

    import trio

    from audiocpp.daemon.app import run_daemon
    from audiocpp.daemon.config import ServerConfig

    assert isinstance(config, ServerConfig)
    # What has been imported stays for ever: out of the collector's sight it costs no collection its time.
    gc.freeze()
    gc.enable()
    trio.run(
        lambda: run_daemon(config, config_path=config_path, environ=os.environ, announce=_announce),
        restrict_keyboard_interrupt_to_checkpoints=True,
    )
    print(f"{PROGRAM} stopped", flush=True)  # noqa: T201
    return 0


def _announce(url: str) -> None:
    print(f"{PROGRAM} listening on {url}", flush=True)  # noqa: T201


def _check(effective: object) -> int:
    print(json.dumps(effective, indent=2))  # noqa: T201
    return 0


def _described(error: OSError) -> str:
    """Without the number that `str` puts first."""
    text = error.strerror or str(error)
    return f"{text}: {error.filename}" if error.filename else text


def _fail(message: str) -> int:
    print(f"{PROGRAM} failed: {message}", file=sys.stderr)  # noqa: T201
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--config FILE] [--host ADDRESS] [--port PORT] [OPTION ...]",
        description="Serves speech and audio models over HTTP, WebSocket and an admin socket.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="configuration (server.json)")
    add("--check-config", action="store_true", help="print the configuration in force and exit")
    add("--strict-config", action="store_true", help="refuse unknown configuration keys")
    add("--version", action="store_true", help="print the version and exit")
    add("--host", help="address to listen on")
    add("--port", type=int, help="TCP port; 0 takes a free one")
    add("--backend", help="where models run: auto, cpu, ...")
    add("--device", type=int, metavar="N", help="device index of the backend")
    add("--threads", type=int, metavar="N", help="compute threads of one graph run")
    add("--ui", action=argparse.BooleanOptionalAction, default=None, help="serve the web page")
    add("--ui-management", action="store_true", default=None, help="let clients register, load and unload models")
    add("--busy-timeout-ms", type=int, metavar="MS", help="longest wait for a free slot")
    add("--max-loaded-models", type=int, metavar="N", help="most models in memory")
    add("--idle-unload-ms", type=int, metavar="MS", help="unload models idle for so long")
    add("--min-free-memory-mb", type=int, metavar="MIB", help="memory to leave free when loading")
    add("--resample-kernel-cache-mb", type=int, metavar="MIB", help="accepted, no effect")
    add("--model-spec-override", metavar="PATH", help="model contract, or folder of them, used instead")
    add("--voice-dir", metavar="DIR", help="folder of reference recordings")
    add("--cors-origins", metavar="ORIGINS", help='"*" or "" (off)')
    add("--models-root", metavar="DIR", help="folder of installed packages")
    add("--admin-socket", metavar="PATH", help="Unix socket of audiocppctl")
    add("--log", action="store_true", help="accepted; the log is always on")
    add("--log-file", type=Path, metavar="FILE", help="also append the log to this file")
    add("--log-level", default="info", choices=["debug", "info", "warning", "error"], help="least level logged")
    add("--parallel-jobs", action="store_true", help="accepted; slots are always on")
    return parser
