"""A WebSocket client over a non-blocking socket: wsproto does the protocol, the caller does the waiting.

The only client module that needs more than the standard library; imported when a live verb runs and not before.
"""

import contextlib
import json
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

import wsproto
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from audiocpp.control.failures import ControlError, Failed, NotReachable, TimedOut, replied_error
from audiocpp.control.public_client import Address, decoded_json, transport_errors

_RECEIVE_BYTES = 64 * 1024
_CLOSE_NORMAL, _CLOSE_RESTARTING, _CLOSE_BUSY = 1000, 1012, 1013
_GOODBYE_S = 1.0


class WebSocket:
    """An open connection. Sending only queues: call `flush` when the socket is writable and `unsent_bytes` is not 0.

    Reading is for text messages that hold JSON objects, which is all that the live routes send.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._protocol = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._unsent = bytearray()
        self._text = ""
        self._refused_status = 0
        self._refusal = b""

    @classmethod
    def connect(cls, url: str, target: str, *, timeout_s: float) -> "WebSocket":
        """Open `target` (path and query) below the http URL. `timeout_s` bounds connecting and the upgrade, in which
        the daemon loads the model. A refused upgrade raises what the daemon replied.
        """
        address = Address.of_url(url)
        with transport_errors(url, timeout_s):
            connected = socket.create_connection((address.host, address.port), timeout=timeout_s)
            try:
                opened = cls(connected)
                opened._upgrade(f"{address.host}:{address.port}", address.prefix + target)
            except BaseException:
                connected.close()
                raise
        connected.setblocking(False)
        return opened

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Say goodbye and give the daemon a moment to do so, then release the socket. Never raises."""
        with contextlib.closing(self._socket), contextlib.suppress(OSError):  # gone already is as good
            if self._protocol.state is ConnectionState.OPEN:
                self._unsent += self._protocol.send(CloseConnection(code=_CLOSE_NORMAL))
            self._socket.settimeout(_GOODBYE_S)
            self._socket.sendall(self._unsent)
            self._socket.shutdown(socket.SHUT_WR)
            deadline_s = time.monotonic() + _GOODBYE_S
            while self._socket.recv(_RECEIVE_BYTES) and time.monotonic() < deadline_s:
                pass

    def send_bytes(self, data: bytes) -> None:
        self._unsent += self._protocol.send(BytesMessage(data))

    def send_json(self, message: Mapping[str, Any]) -> None:
        self._unsent += self._protocol.send(TextMessage(json.dumps(message)))

    def flush(self) -> None:
        """Send what the socket takes now. Raises NotReachable when the connection is gone."""
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError as error:
            raise _lost(error) from error

    def receive(self) -> Iterator[Mapping[str, Any]]:
        """The messages that are here by now. Raises when the daemon has closed the connection, whatever the code."""
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise _lost(error) from error
        if not data:
            raise NotReachable("The daemon closed the live connection without a word.")
        self._protocol.receive_data(data)
        for event in self._protocol.events():
            yield from self._messages(event)

    def _messages(self, event: Event) -> Iterator[Mapping[str, Any]]:
        if isinstance(event, TextMessage):
            self._text += event.data
            if event.message_finished:
                text, self._text = self._text, ""
                yield json.loads(text)
        elif isinstance(event, Ping):
            self._unsent += self._protocol.send(event.response())
        elif isinstance(event, CloseConnection):
            raise _closed(event)

    def _upgrade(self, host: str, target: str) -> None:
        self._socket.sendall(self._protocol.send(Request(host=host, target=target)))
        while True:
            data = self._socket.recv(_RECEIVE_BYTES)
            self._protocol.receive_data(data or None)
            for event in self._protocol.events():
                if self._is_accepted(event):
                    return
            if not data:
                raise ConnectionResetError("the connection was closed during the WebSocket upgrade")

    def _is_accepted(self, event: Event) -> bool:
        """False while the answer is incomplete; a complete refusal raises."""
        if isinstance(event, AcceptConnection):
            return True
        if isinstance(event, RejectConnection):
            self._refused_status = event.status_code
            is_complete = not event.has_body
        elif isinstance(event, RejectData):
            self._refusal += event.data
            is_complete = event.body_finished
        else:
            return False
        if is_complete:
            raise replied_error(decoded_json(self._refusal), status=self._refused_status)
        return False


def _closed(event: CloseConnection) -> ControlError:
    reason = f"The daemon closed the live session with code {event.code}: {event.reason or 'no reason given'}."
    if event.code == _CLOSE_BUSY:
        return replied_error({"error": {"message": reason, "code": "server_busy"}}, status=event.code)
    if event.code == _CLOSE_RESTARTING:
        return NotReachable(reason)
    return Failed(reason, code="session_closed")


def _lost(error: OSError) -> ControlError:
    if isinstance(error, TimeoutError):
        return TimedOut("The live connection timed out.")
    return NotReachable(f"The live connection is gone: {error.strerror or error}.")
