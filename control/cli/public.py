"""What the verbs that use the public API share: finding its URL."""

import argparse
import os

from audiocpp.control.cli.arguments import add_timeout
from audiocpp.control.cli.connection import admin_client
from audiocpp.control.failures import Failed

URL_VARIABLE = "AUDIOCPP_URL"
PUBLIC_TIMEOUT_S = 600.0


def configure_public(parser: argparse.ArgumentParser) -> None:
    """Add the options of every such verb."""
    parser.add_argument("--url", help=f"the public API (default ${URL_VARIABLE}, else asked of the admin socket)")
    parser.add_argument("--model", metavar="ID", help="model id or alias; may be left out where only one entry fits")
    parser.add_argument("--language", metavar="TAG", help="language of the speech, for example en")
    add_timeout(parser, PUBLIC_TIMEOUT_S, "how long the daemon may be silent")


def public_url(arguments: argparse.Namespace) -> str:
    """Raises a ControlError when neither option, environment nor the daemon says it."""
    url: str | None = arguments.url or os.environ.get(URL_VARIABLE) or admin_client(arguments).status()["url"]
    if not url:
        raise Failed("The daemon listens on no TCP port: its public API cannot be reached.")
    return url


def given_fields(arguments: argparse.Namespace, *names: str) -> dict[str, str]:
    """Those of the named options that were given."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}
