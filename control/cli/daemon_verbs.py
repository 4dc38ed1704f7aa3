"""Verbs about the daemon itself: status, version."""

import argparse

import audiocpp
from audiocpp.control.cli.output import Output, mebibytes, seconds
from audiocpp.control.cli.verb import Verb, admin_client
from audiocpp.control.failures import NotReachable
from audiocpp.control.protocol import ADMIN_VERSION, StatusReply


def _status(arguments: argparse.Namespace, output: Output) -> None:
    status = admin_client(arguments).status()
    if output.as_json:
        output.json(status)
        return
    for name, value in _status_lines(status):
        output.line(f"{name + ':':<10}{value}" if output.is_terminal else f"{name}\t{value}")


def _status_lines(status: StatusReply) -> list[tuple[str, str]]:
    return [
        ("daemon", f"audiocppd {status['version']}, pid {status['pid']}, {status['state']}"),
        ("up", seconds(status["uptime_s"])),
        ("url", status["url"] or "-"),
        ("backend", status["backend"]),
        ("config", status["config_path"] or "-"),
        ("packages", status["models_root"]),
        ("models", f"{status['models']} configured, {status['resident']} resident"),
        ("memory", mebibytes(status["resident_bytes"])),
        ("requests", f"{status['active_requests']} running, {status['queued_requests']} queued"),
    ]


def _version(arguments: argparse.Namespace, output: Output) -> None:
    try:
        daemon: str | None = admin_client(arguments).status()["version"]
    except NotReachable:
        daemon = None
    if output.as_json:
        output.json({"client": audiocpp.__version__, "daemon": daemon, "admin_version": ADMIN_VERSION})
        return
    output.line(f"audiocppctl {audiocpp.__version__} (admin protocol {ADMIN_VERSION})")
    output.line(f"audiocppd {daemon}" if daemon else "audiocppd: not running")


VERBS = (
    Verb("status", "what the daemon is, where it listens, what it holds", "audiocppctl status", _status),
    Verb("version", "versions of this command and of the daemon", "audiocppctl version --json", _version),
)
