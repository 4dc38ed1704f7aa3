"""`packages`: the catalogue of model files."""

import argparse

from audiocpp.control.cli.arguments import no_arguments
from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Column, Output, mebibytes

_COLUMNS = (
    Column("ID", "id"),
    Column("FAMILY", "family"),
    Column("INSTALLED", "installed", lambda installed: "yes" if installed else "no"),
    Column("SIZE", "size_bytes", mebibytes),
    Column("LICENSE", "license"),
    Column("PATH", "path"),
)

configure = no_arguments


def perform(arguments: argparse.Namespace, output: Output) -> None:
    reply = admin_client(arguments).packages()
    if output.as_json:
        output.json(reply)
    else:
        output.table(_COLUMNS, reply["packages"])
