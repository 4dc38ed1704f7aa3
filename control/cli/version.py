"""`version`: of this command, and of the daemon when there is one."""

import argparse

import audiocpp
from audiocpp.control.cli.arguments import no_arguments
from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Output
from audiocpp.control.failures import NotReachable
from audiocpp.control.protocol import ADMIN_VERSION

configure = no_arguments


def perform(arguments: argparse.Namespace, output: Output) -> None:
    try:
        daemon: str | None = admin_client(arguments).status()["version"]
    except NotReachable:
        daemon = None
    if output.as_json:
        output.json({"client": audiocpp.__version__, "daemon": daemon, "admin_version": ADMIN_VERSION})
        return
    output.line(f"audiocppctl {audiocpp.__version__} (admin protocol {ADMIN_VERSION})")
    output.line(f"audiocppd {daemon}" if daemon else "audiocppd: not running")
