"""Serves an ASGI app on listeners of our own: hypercorn's protocol stack under another accept loop.

Stock hypercorn lets one connection end the process, waits for ever on a client that does not read, and takes over a
Unix socket that another daemon listens on. Here each connection's failure stays in it, each write has a deadline, and
stopping is bounded. Nothing here knows what the app does.
"""

from audiocpp.daemon.serving.limits import ServingLimits
from audiocpp.daemon.serving.listeners import AddressInUse, Listener, open_tcp_listener, open_unix_listener
from audiocpp.daemon.serving.server import serve

__all__ = ["AddressInUse", "Listener", "ServingLimits", "open_tcp_listener", "open_unix_listener", "serve"]
