"""Argument types and options that several verbs share."""

import argparse


def no_arguments(_: argparse.ArgumentParser) -> None:
    """For a verb that takes none."""


def add_timeout(parser: argparse.ArgumentParser, default_s: float, help_text: str) -> None:
    help_text = f"{help_text} (default {default_s:g})"
    parser.add_argument("--timeout", metavar="SECONDS", type=positive_seconds, default=default_s, help=help_text)


def positive_seconds(text: str) -> float:
    """Argument type: argparse reports the ValueError with the argument's name."""
    value = float(text)
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds between 0 and 86400")
    return value
