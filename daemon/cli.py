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
from typing import TYPE_CHECKING

from audiocpp.daemon.flags import PROGRAM, UsageError, flag_parser, known_flags, overrides_of, read_flags

if TYPE_CHECKING:
    from audiocpp.daemon.config import ServerConfig

log = logging.getLogger(__name__)

INTERRUPTED = 128 + signal.SIGINT
"""The exit status that shells give to a program that Ctrl-C has ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the daemon; the exit status. Any error before it serves is one line on stderr and status 1."""
    try:
        flags = read_flags(argv)
        return _perform(flags)
    except UsageError as error:
        return _fail(str(error))
    except KeyboardInterrupt:  # before signals are listened for: while modules are imported, files read
        return INTERRUPTED


def _perform(flags: argparse.Namespace) -> int:
    if flags.list_devices:
        return _list_devices(as_json=bool(flags.json))
    if flags.help:
        return _print(flag_parser().format_help().rstrip())
    if flags.version:
        from audiocpp import __version__

        return _print(f"audiocppd {__version__}")
    if flags.config is None and not flags.ui:
        raise UsageError("--config FILE or --ui is required")
    if not flags.check_config:
        from audiocpp.daemon.fork_server import start_fork_server

        start_fork_server()
    gc.disable()  # until everything is imported: collections among the new modules find nothing and take a fifth
    return _run(flags)


def _list_devices(*, as_json: bool) -> int:
    from audiocpp.engines.devices import devices_document, devices_text, list_devices
    from audiocpp.engines.host import read_host

    devices = list_devices(read_host())
    return _print(json.dumps(devices_document(devices), indent=2) if as_json else devices_text(devices))


def _run(flags: argparse.Namespace) -> int:
    from audiocpp.daemon.config import effective, load_config
    from audiocpp.daemon.errors import ConfigError
    from audiocpp.daemon.logs import configure_logs
    from audiocpp.engines.errors import SpecError

    logs = configure_logs(getattr(logging, flags.log_level.upper()), stream=sys.stderr, file=flags.log_file)
    try:
        _report_unknown(flags)
        overrides = overrides_of(flags)
        config = load_config(flags.config, overrides, strict=bool(flags.strict_config))
        if flags.check_config:
            return _print(json.dumps(effective(config), indent=2))
        return _serve(_with_log_flags(config, flags), flags.config)
    except (ConfigError, SpecError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(_described(error))
    finally:
        logs.close()


def _report_unknown(flags: argparse.Namespace) -> None:
    """The reference ignores what it does not know, so launchers may send it; a misspelled flag should still be seen."""
    for word in flags.unknown:
        import difflib

        nearest = difflib.get_close_matches(word.partition("=")[0], known_flags(), n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        if flags.strict_config:
            raise UsageError(f"{word}: unknown flag{hint}")
        log.warning("%s: unknown flag, ignored%s", word, hint)


def _with_log_flags(config: "ServerConfig", flags: argparse.Namespace) -> "ServerConfig":
    """What is only logged when a log was asked for."""
    from msgspec.structs import replace

    from audiocpp.daemon.load_progress import report_load_progress

    asked = bool(flags.log or flags.log_file)
    report_load_progress(on=asked and flags.load_progress == 1)
    if config.log_request_body and not asked:
        log.warning("log_request_body: has no effect without --log or --log-file")
    return replace(config, log_request_body=config.log_request_body and asked)


def _serve(config: "ServerConfig", config_path: Path | None) -> int:
    import os

    import trio

    from audiocpp.daemon.app import run_daemon

    # What has been imported stays for ever: out of the collector's sight it costs no collection its time.
    gc.freeze()
    gc.enable()
    trio.run(
        lambda: run_daemon(config, config_path=config_path, environ=os.environ, announce=_announce),
        restrict_keyboard_interrupt_to_checkpoints=True,
    )
    return _print(f"{PROGRAM} stopped")


def _announce(url: str) -> None:
    _print(f"{PROGRAM} listening on {url}")


def _print(text: str) -> int:
    print(text, flush=True)  # noqa: T201
    return 0


def _described(error: OSError) -> str:
    """Without the number that `str` puts first."""
    text = error.strerror or str(error)
    return f"{text}: {error.filename}" if error.filename else text


def _fail(message: str) -> int:
    print(f"{PROGRAM} failed: {message}", file=sys.stderr)  # noqa: T201
    return 1
