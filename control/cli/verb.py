"""What a verb is: a name, its help with an example, its arguments, and the function that performs it."""

import argparse
import os
from collections.abc import Callable
from typing import NamedTuple

from audiocpp.control.cli.output import Output
from audiocpp.control.client import AdminClient
from audiocpp.control.unix_http import socket_candidates

Configure = Callable[[argparse.ArgumentParser], None]
Perform = Callable[[argparse.Namespace, Output], None]


def no_arguments(_: argparse.ArgumentParser) -> None:
    """For a verb that takes none."""


class Verb(NamedTuple):
    """`perform` answers on the Output, and raises a ControlError for every other end than success."""

    name: str
    help: str
    example: str
    perform: Perform
    configure: Configure = no_arguments


def admin_client(arguments: argparse.Namespace) -> AdminClient:
    return AdminClient(socket_candidates(arguments.socket, os.environ))


def positive_seconds(text: str) -> float:
    """Argument type: argparse reports the ValueError with the argument's name."""
    value = float(text)
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds between 0 and 86400")
    return value
