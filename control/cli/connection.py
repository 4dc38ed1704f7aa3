"""The admin client that the arguments ask for."""

import argparse
import os

from audiocpp.control.client import AdminClient
from audiocpp.control.unix_http import socket_candidates


def admin_client(arguments: argparse.Namespace) -> AdminClient:
    return AdminClient(socket_candidates(arguments.socket, os.environ))
