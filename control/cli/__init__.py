"""`audiocppctl`, the operator's command. Standard library only, so that it answers at once on a small board.

A verb speaks to the daemon through `control.client` (the admin socket) or `control.public_client` (the public API)
and ends with one of the documented exit codes. `listen` alone imports more, wsproto, and only once it is run.
"""

from audiocpp.control.cli.command import main

__all__ = ["main"]
