"""A client of the live WebSocket that does what no client should: a socket, and frames made by hand."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.integration.daemon_process import DaemonProcess

TEXT, BINARY = 1, 2
PATH = "/v1/audio/transcriptions/live?model=moonshine-live"
TIMEOUT_S = 30.0
_UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def frame(payload: bytes, *, opcode: int = BINARY) -> bytes:
    """A whole message, masked with zeros."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = b"\xfe" + struct.pack(">H", size)
    else:
        length = b"\xff" + struct.pack(">Q", size)
    return bytes([0x80 | opcode]) + length + bytes(4) + payload


class RawClient:
    """An open socket. `buffered`: bytes that the kernel may hold for a client that does not read."""

    def __init__(self, daemon: DaemonProcess, *, buffered: int | None = None) -> None:
        address = urlsplit(daemon.url)
        self._host = address.netloc
        self.socket = socket.socket()
        if buffered is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffered)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((str(address.hostname), address.port))

    def upgrade(self, path: str = PATH) -> None:
        """Asks for a session and waits for it."""
        self.ask(path)
        received = b""
        while b"\r\n\r\n" not in received:
            piece = self.socket.recv(1)
            assert piece, received
            received += piece
        assert received.startswith(b"HTTP/1.1 101"), received

    def ask(self, path: str = PATH) -> None:
        self.socket.sendall(_UPGRADE.format(path=path, host=self._host).encode())

    def send(self, payload: bytes, *, opcode: int = BINARY) -> None:
        self.socket.sendall(frame(payload, opcode=opcode))

    def send_while_taken(self, payload: bytes, *, opcode: int = BINARY, seconds: float) -> int:
        """Sends the message again and again until nothing is taken for a second, or the daemon has had enough of it.
        Returns how many bytes were taken.
        """
        data, sent, until = frame(payload, opcode=opcode), 0, time.monotonic() + seconds
        self.socket.settimeout(1.0)
        try:
            while time.monotonic() < until:
                sent += self.socket.send(data[sent % len(data) :])
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass
        finally:
            self.socket.settimeout(TIMEOUT_S)
        return sent

    def read_to_the_end(self) -> bytes:
        """Everything until the daemon closes, or resets."""
        received = b""
        try:
            while piece := self.socket.recv(1 << 16):
                received += piece
        except ConnectionResetError:
            pass
        return received

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@contextmanager
def raw_client(daemon: DaemonProcess, path: str | None = PATH, *, buffered: int | None = None) -> Iterator[RawClient]:
    """A client with an open session; without `path` just with a connection."""
    client = RawClient(daemon, buffered=buffered)
    with client.socket:
        if path is not None:
            client.upgrade(path)
        yield client


def resident_bytes(pid: int) -> int:
    """What a process holds of memory now."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")
