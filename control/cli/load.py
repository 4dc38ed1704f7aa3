"""`load`: make a model resident."""

import argparse

from audiocpp.control.cli import explain
from audiocpp.control.cli.arguments import add_timeout
from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Output, mebibytes
from audiocpp.control.protocol import LOAD_TIMEOUT_S, LoadReply


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="model id or alias")
    parser.add_argument("--no-wait", action="store_true", help="return as soon as the load has been admitted")
    parser.add_argument("--dry-run", action="store_true", help="change nothing; print what loading would mean")
    add_timeout(parser, LOAD_TIMEOUT_S, "how long to wait for the model; exit code 8 when it is not resident by then")


def perform(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.dry_run:
        explain.show(admin_client(arguments).explain(arguments.id), output)
        return
    wait = not arguments.no_wait
    reply = admin_client(arguments).load(arguments.id, wait=wait, timeout_s=arguments.timeout)
    if output.as_json:
        output.json(reply)
    else:
        output.line(_load_text(reply))


def _load_text(reply: LoadReply) -> str:
    if not reply["changed"]:
        return f"{reply['id']} was {reply['state']} already"
    parts = [f"{reply['id']} {reply['state']}"]
    if reply["seconds"] is not None:
        parts.append(f"in {reply['seconds']:.2f} s")
    if reply["resident_bytes"] is not None:
        parts.append(f"{mebibytes(reply['resident_bytes'])} resident")
    if reply["placement"]:
        parts.append(f"on {reply['placement']}")
    return ", ".join(parts)
