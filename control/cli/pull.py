"""`pull`: download and install packages."""

import argparse

from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Output, mebibytes, seconds
from audiocpp.control.cli.progress import ProgressBar
from audiocpp.control.client import AdminClient
from audiocpp.control.protocol import PullEvent


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("packages", metavar="PACKAGE", nargs="+", help="package id, as `audiocppctl packages` lists it")


def perform(arguments: argparse.Namespace, output: Output) -> None:
    """With --json every event is a line of its own, so that a program can follow."""
    for package in arguments.packages:
        _pull_one(admin_client(arguments), package, output)


def _pull_one(client: AdminClient, package: str, output: Output) -> None:
    with ProgressBar() as bar:
        for event in client.pull(package):
            if output.as_json:
                output.json(event)
            elif event["event"] == "progress":
                bar.show(event["file"], event["done_bytes"], event["total_bytes"])
            else:
                bar.clear()
                output.line(_event_text(event))


def _event_text(event: PullEvent) -> str:
    if event["event"] == "package":
        size = "size unknown" if event["size_bytes"] is None else mebibytes(event["size_bytes"])
        return f"{event['package']}: {size}, licence {event['license']}"
    if event["event"] == "done":
        how = f"installed in {seconds(event['seconds'])}" if event["changed"] else "already complete"
        return f"{event['package']}: {how}, {event['path']}"
    raise AssertionError(event)
