"""The command line of `audiocppd`: the reference's flags and ours. Imports nothing heavy, see `cli`."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

PROGRAM = "audiocpp_server"
"""The reference's name: launchers read it in the ready line and in the help."""

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
    "frontend_listener",
    "frontend_options",
    "models_root",
    "admin_socket",
)
"""Flags that stand for the configuration key of the same name."""


class UsageError(Exception):
    """The command line cannot be used."""


def read_flags(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The flags by name; None for those not given. Of a repeated flag the first counts, as in the reference.

    `unknown` holds the words that no flag takes, which the reference ignores. Raises `UsageError`.
    """
    flags, unknown = flag_parser().parse_known_args(argv)
    flags.unknown = unknown
    flags.frontend_options = dict(reversed(flags.frontend_option)) if flags.frontend_option else None
    return flags


def overrides_of(flags: argparse.Namespace) -> dict[str, object]:
    """Configuration keys that the flags set; None for those that they leave alone."""
    overrides = {name: getattr(flags, name) for name in CONFIG_FLAGS}
    return overrides | {"ui": False} if flags.no_ui else overrides


def known_flags() -> Iterable[str]:
    """`--host`, `--port`, ..."""
    return (name for action in flag_parser()._actions for name in action.option_strings)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class _HelpFormatter(argparse.HelpFormatter):
    """Begins with the program's name, without the word usage: launchers look for that."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=100)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:  # noqa: ANN401 - passed on
        super().add_usage(usage, actions, groups, "" if prefix is None else prefix)


class _First(argparse.Action):
    """Stores a value unless the flag had one before."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - of the flag's own type
        option_string: str | None = None,
    ) -> None:
        del parser, option_string
        if self.dest not in namespace.given:
            namespace.given.add(self.dest)
            setattr(namespace, self.dest, values)


def _key_value(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not key or not mark:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE with a key that is not empty, got {text!r}")
    return key, value


def flag_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--config FILE] [--host ADDRESS] [--port PORT] [OPTION ...]",
        description="Serves speech and audio models over HTTP, WebSocket and an admin socket.",
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.set_defaults(given=set())
    _add_server_flags(parser)
    _add_model_flags(parser)
    _add_log_flags(parser)
    _add_questions(parser)
    return parser


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("serving")
    value, switch = _adders(group)
    value("--config", type=Path, metavar="FILE", help="configuration (server.json)")
    switch("--strict-config", help="refuse unknown configuration keys and flags")
    value("--host", metavar="ADDRESS", help="address to listen on")
    value("--port", type=int, help="TCP port; 0 takes a free one")
    switch("--ui", help="serve the web page; without --config: start without models")
    switch("--no-ui", help="do not; wins over --ui")
    switch("--ui-management", help="let clients register, load and unload models")
    value("--cors-origins", metavar="ORIGINS", help='web origins that may use the API: "*", or "" for none')
    value("--frontend-listener", metavar="NAME", help="how the API is served: https or websocket")
    group.add_argument(
        "--frontend-option",
        action="append",
        type=_key_value,
        metavar="KEY=VALUE",
        help="option of the further listener; may be repeated",
    )
    value("--admin-socket", metavar="PATH", help="Unix socket of audiocppctl")
    switch("--parallel-jobs", help="accepted; slots are always on")


def _add_model_flags(parser: argparse.ArgumentParser) -> None:
    value, _ = _adders(parser.add_argument_group("models"))
    value("--backend", metavar="NAME", help="where models run: auto, cpu, ...")
    value("--device", type=int, metavar="N", help="device index of the backend, see --list-devices")
    value("--threads", type=int, metavar="N", help="compute threads of one graph run")
    value("--models-root", metavar="DIR", help="folder of installed packages")
    value("--model-spec-override", metavar="PATH", help="model contract, or folder of them, used instead")
    value("--voice-dir", metavar="DIR", help="folder of reference recordings")
    value("--busy-timeout-ms", type=int, metavar="MS", help="longest wait for a free slot")
    value("--max-loaded-models", type=int, metavar="N", help="most models in memory")
    value("--idle-unload-ms", type=int, metavar="MS", help="unload models idle for so long")
    value("--min-free-memory-mb", type=int, metavar="MIB", help="memory to leave free when loading")
    value("--resample-kernel-cache-mb", type=int, metavar="MIB", help="accepted, no effect")


def _add_log_flags(parser: argparse.ArgumentParser) -> None:
    value, switch = _adders(parser.add_argument_group("log"))
    switch("--log", help="let log_request_body and --load-progress take effect; the log itself is always on")
    value("--log-file", type=Path, metavar="FILE", help="also append the log to this file; implies --log")
    value("--log-level", default="info", choices=["debug", "info", "warning", "error"], help="least level logged")
    value("--load-progress", type=int, choices=[0, 1], help="1: log how far loads are, with --log")


def _add_questions(parser: argparse.ArgumentParser) -> None:
    _, switch = _adders(parser.add_argument_group("print and exit"))
    switch("--list-devices", help="the devices that models can run on")
    switch("--json", help="--list-devices as JSON")
    switch("--check-config", help="the configuration in force, or what is wrong with it")
    switch("--version", help="the version")
    switch("-h", "--help", help="this text")


def _adders(group: argparse._ArgumentGroup) -> tuple[Any, Any]:
    def value(*names: str, **options: Any) -> None:  # noqa: ANN401 - argparse's
        group.add_argument(*names, action=_First, **options)

    def switch(*names: str, help: str) -> None:  # noqa: A002 - argparse's
        group.add_argument(*names, action="store_true", default=None, help=help)

    return value, switch
