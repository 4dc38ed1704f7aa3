"""`unload`: take models out of memory."""

import argparse

from audiocpp.control.cli.arguments import add_timeout
from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Output, mebibytes, names
from audiocpp.control.protocol import UNLOAD_TIMEOUT_S, UnloadReply


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("ids", metavar="ID", nargs="*", default=[], help="model ids or aliases")
    which.add_argument("--all", action="store_true", help="every resident model")
    parser.add_argument("--force", action="store_true", help="cancel running requests instead of waiting for them")
    add_timeout(parser, UNLOAD_TIMEOUT_S, "how long to wait for running requests; exit code 6 when they still run")


def perform(arguments: argparse.Namespace, output: Output) -> None:
    ids = None if arguments.all else arguments.ids
    reply = admin_client(arguments).unload(ids, force=arguments.force, timeout_s=arguments.timeout)
    if output.as_json:
        output.json(reply)
    else:
        output.line(_unload_text(reply))


def _unload_text(reply: UnloadReply) -> str:
    if not reply["changed"]:
        return f"nothing to unload (not resident: {names(reply['not_resident'])})"
    text = f"unloaded {names(reply['unloaded'])}, {mebibytes(reply['released_bytes'])} released"
    return f"{text} (not resident: {names(reply['not_resident'])})" if reply["not_resident"] else text
