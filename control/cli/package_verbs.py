"""Verbs about packages of model files: packages, pull."""

import argparse

from audiocpp.control.cli.output import Column, Output, mebibytes, seconds
from audiocpp.control.cli.progress import ProgressBar
from audiocpp.control.cli.verb import Verb, admin_client
from audiocpp.control.client import AdminClient
from audiocpp.control.protocol import PullEvent

_PACKAGES = (
    Column("ID", "id"),
    Column("FAMILY", "family"),
    Column("INSTALLED", "installed", lambda installed: "yes" if installed else "no"),
    Column("SIZE", "size_bytes", mebibytes),
    Column("LICENSE", "license"),
    Column("PATH", "path"),
)


def _packages(arguments: argparse.Namespace, output: Output) -> None:
    reply = admin_client(arguments).packages()
    if output.as_json:
        output.json(reply)
    else:
        output.table(_PACKAGES, reply["packages"])


def _configure_pull(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("packages", metavar="PACKAGE", nargs="+", help="package id, as `audiocppctl packages` lists it")


def _pull(arguments: argparse.Namespace, output: Output) -> None:
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


VERBS = (
    Verb("packages", "packages of model files, installed or not", "audiocppctl packages", _packages),
    Verb("pull", "download and install packages", "audiocppctl pull moonshine_tiny_en", _pull, _configure_pull),
)
