"""`status`: the daemon as a whole."""

import argparse

from audiocpp.control.cli.arguments import no_arguments
from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Output, mebibytes, seconds
from audiocpp.control.protocol import StatusReply

configure = no_arguments


def perform(arguments: argparse.Namespace, output: Output) -> None:
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
