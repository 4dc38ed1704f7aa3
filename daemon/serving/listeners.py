"""Listening sockets, bound before anything is served, so that the daemon is ready when they exist."""

import errno
import ipaddress
import os
import socket
import stat
from pathlib import Path

import msgspec
import trio

BACKLOG = 128


class AddressInUse(OSError):
    """Another process listens there. The message names the address."""


class Listener(msgspec.Struct, frozen=True):
    """A listening socket. `loopback`: only this machine reaches it (loopback address or Unix socket)."""

    stream_listener: trio.SocketListener
    address: str
    loopback: bool
    unix: bool = False

    @property
    def port(self) -> int:
        """The TCP port in use, also where port 0 was asked for."""
        return int(self.stream_listener.socket.getsockname()[1])


def open_tcp_listener(host: str, port: int) -> Listener:
    """Binds a literal IPv4 or IPv6 address. Port 0 takes a free one.

    Raises `AddressInUse`, `ValueError` for a host that is no literal address, or `OSError`.
    """
    address = ipaddress.ip_address(host)
    sock = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it on Linux
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(error.errno, f"{_endpoint(host, port)} is in use by another process") from error
        raise
    return from_socket(sock)


def open_unix_listener(path: Path, *, mode: int = 0o666) -> Listener:
    """Binds a Unix socket with the permissions `mode`.

    A socket that nobody listens on any more (its daemon was killed) is replaced; one that answers is never stolen.
    Raises `AddressInUse` when another process listens there or the path is not a socket.
    """
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind_with_mode(sock, path, mode)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return from_socket(sock)


def from_socket(sock: socket.socket) -> Listener:
    """Takes over a socket that listens already, such as one made by systemd."""
    sock.setblocking(False)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
    if sock.family == socket.AF_UNIX:
        return Listener(listener, address=f"unix:{sock.getsockname()}", loopback=True, unix=True)
    host, port = sock.getsockname()[:2]
    return Listener(listener, address=_endpoint(host, port), loopback=ipaddress.ip_address(host).is_loopback)


def _endpoint(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _remove_stale(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise AddressInUse(errno.EADDRINUSE, f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)  # a listener whose backlog is full makes connect wait; it is alive all the same
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except TimeoutError:
            pass
    raise AddressInUse(errno.EADDRINUSE, f"another daemon listens on {path}")


def _bind_with_mode(sock: socket.socket, path: Path, mode: int) -> None:
    """The umask makes the socket private from its first moment; the wanted mode is set before it listens."""
    umask = os.umask(0o177)
    try:
        sock.bind(str(path))
    finally:
        os.umask(umask)
    path.chmod(mode)
