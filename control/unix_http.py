"""HTTP/1.1 over a Unix socket with the standard library, and where the admin socket is looked for."""

import errno
import http.client
import os
import socket
from collections.abc import Mapping, Sequence

from audiocpp.control.failures import Failed, NotReachable, PermissionDenied, TimedOut
from audiocpp.control.protocol import ADMIN_HOST, READER_GROUP

SOCKET_VARIABLE = "AUDIOCPP_SOCKET"
SYSTEM_SOCKET = "/run/audiocpp/admin.sock"

_NOBODY = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "does not exist",
    errno.ECONNREFUSED: "nobody listens",
    errno.ENOTSOCK: "is no socket",
}


def socket_candidates(explicit: str | None, environment: Mapping[str, str]) -> list[str]:
    """The paths to try, in order: `explicit` alone, else AUDIOCPP_SOCKET alone, else the user's and the system's."""
    if chosen := explicit or environment.get(SOCKET_VARIABLE):
        return [chosen]
    runtime_dir = environment.get("XDG_RUNTIME_DIR")
    own = [f"{runtime_dir}/audiocpp/admin.sock"] if runtime_dir else []
    return [*own, SYSTEM_SOCKET]


class UnixConnection(http.client.HTTPConnection):
    """A connection to the first of `paths` where somebody listens; `path` is that one once connected."""

    def __init__(self, paths: Sequence[str], *, timeout_s: float) -> None:
        super().__init__(ADMIN_HOST, timeout=timeout_s)
        self._paths = paths
        self.path = ""

    def connect(self) -> None:
        """Raises NotReachable, PermissionDenied or TimedOut: three different things to do for an operator."""
        tried = []
        for path in self._paths:
            try:
                self.sock = self._connected(path)
            except OSError as error:
                tried.append(f"{path} ({_nobody_there(path, error)})")
            else:
                self.path = path
                return
        hint = "Start audiocppd, or name its socket with --socket or AUDIOCPP_SOCKET."
        raise NotReachable(f"No daemon is listening. Tried: {', '.join(tried)}. {hint}")

    def _connected(self, path: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(os.fspath(path))
        except BaseException:
            sock.close()
            raise
        return sock


def _nobody_there(path: str, error: OSError) -> str:
    """Why the next path may be tried; raises where going on would hide the cause."""
    if isinstance(error, PermissionError):
        raise PermissionDenied(f"No permission to open {path}: join the group {READER_GROUP!r}.") from error
    if isinstance(error, (TimeoutError, BlockingIOError)):
        raise TimedOut(f"The daemon at {path} does not accept connections.") from error
    if error.errno in _NOBODY:
        return _NOBODY[error.errno]
    if error.errno is None:  # raised by Python, not by the kernel: the path is too long for a socket address
        return str(error)
    raise Failed(f"Cannot open {path}: {error}.") from error
