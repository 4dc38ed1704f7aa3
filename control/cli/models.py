"""`models`: the configured entries."""

import argparse

from audiocpp.control.cli.arguments import no_arguments
from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Column, Output, names

_COLUMNS = (
    Column("ID", "id"),
    Column("FAMILY", "family"),
    Column("TASK", "task"),
    Column("MODE", "mode"),
    Column("STATE", "state"),
    Column("PACKAGE", "package"),
    Column("ALIASES", "aliases", names),
    Column("REASON", "reason"),
)

configure = no_arguments


def perform(arguments: argparse.Namespace, output: Output) -> None:
    reply = admin_client(arguments).models()
    if output.as_json:
        output.json(reply)
    else:
        output.table(_COLUMNS, reply["models"])
