"""One connection: bytes between the socket and the protocol, with deadlines for both directions."""

import logging
import select
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.typing import AppWrapper, ConnectionState, WorkerContext
from hypercorn.utils import parse_socket_addr

from audiocpp.daemon.serving.app_tasks import AppTasks
from audiocpp.daemon.serving.limits import ServingLimits
from audiocpp.daemon.serving.protocol import Protocol, StackConfig
from audiocpp.daemon.serving.tls import TlsStream

logger = logging.getLogger(__name__)

READ_BYTES = 128 * 1024
WRITE_BYTES = 64 * 1024
"""A write deadline holds for a piece of this size, so that a slow client that does read is not dropped."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # struct linger: on, 0 s


class Connection:
    """Serves one accepted stream until either side is done. The stream is closed at the end of `run`.

    A client that closes, resets, or half-closes ends the connection, and with it (by cancellation) the work done for
    it; but one that half-closes after a raw body gets its answer. `state` is handed to the app in the ASGI scope,
    together with `abort` and `limit_writes`.
    """

    def __init__(
        self,
        app: AppWrapper,
        stream: trio.SocketStream | TlsStream,
        *,
        limits: ServingLimits,
        config: StackConfig,
        context: WorkerContext,
        state: Mapping[str, Any],
    ) -> None:
        self._app = app
        self._stream = stream
        self._limits = limits
        self._config = config
        self._context = context
        self._state = {**state, "abort": self.abort, "limit_writes": self.limit_writes}
        self._write_timeout_s = limits.write_timeout_s
        self._dropped: Callable[[], None] = lambda: None
        self._scope = trio.CancelScope()
        self._receiving = trio.CancelScope()
        self._handling: trio.CancelScope | None = None
        self._sending = trio.Lock()
        self._deadline = trio.current_time() + limits.header_timeout_s
        self._waits_for_request = False
        self._input_ended = False
        self._closing = False
        self._closed = trio.Event()
        self._nursery: trio.Nursery
        self._protocol: Protocol

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    self._protocol = self._new_protocol(self._nursery)
                    await self._read()
                    self._scope.cancel()
        finally:
            # With the socket gone nothing is left to wait for: aclose on a cancelled task still closes it.
            with trio.CancelScope(shield=True):
                await self._stream.aclose()

    def abort(self) -> None:
        """Resets the connection at once, whatever is under way."""
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._scope.cancel()

    def limit_writes(self, seconds: float, dropped: Callable[[], None]) -> None:
        """From now on a client that takes no byte for so long is dropped, after a call of `dropped`."""
        self._write_timeout_s = seconds
        self._dropped = dropped

    def close_if_idle(self) -> None:
        """Ends the connection if no request is being served."""
        if self._protocol.idle and not self._closing:
            self._scope.cancel()

    def cancel_if_peer_left(self) -> None:
        """For the times when nothing is read because the app is behind: the socket still tells of a hang-up."""
        if self._handling is None and not self._input_ended:
            return
        poll = select.poll()
        # A reset is always told; a half-close only when asked for.
        poll.register(self._stream.socket.fileno(), 0 if self._protocol.reads_to_the_end else select.POLLRDHUP)
        if poll.poll(0):
            self._scope.cancel()

    def _new_protocol(self, nursery: trio.Nursery) -> Protocol:
        sock = self._stream.socket
        return Protocol(
            self._app,
            self._config,
            self._context,
            AppTasks(nursery),  # type: ignore[arg-type]  # all of hypercorn's TaskGroup that is used, no more
            ConnectionState(self._state),
            isinstance(self._stream, TlsStream),
            parse_socket_addr(sock.family, sock.getpeername()),
            parse_socket_addr(sock.family, sock.getsockname()),
            self._send,
        )

    async def _read(self) -> None:
        """Feeds the protocol until the end of the stream, or of the reply to it; discards while closing."""
        discarded = 0
        while data := await self._receive():
            if self._closing:
                discarded += len(data)
                if discarded > self._limits.linger_bytes:
                    return
                continue
            with trio.CancelScope() as self._handling:
                await self._protocol.handle(RawData(data))
            self._handling = None
            self._start_header_timer()
        if not self._closing and self._protocol.reads_to_the_end:
            self._input_ended = True
            await self._protocol.end_input()
            await self._closed.wait()

    async def _receive(self) -> bytes:
        """The next bytes; none at the end of the stream or at the deadline of the present phase."""
        with trio.CancelScope(deadline=self._deadline) as self._receiving:
            try:
                return bytes(await self._stream.receive_some(READ_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._scope.cancel()
        return b""

    def _start_header_timer(self) -> None:
        if self._waits_for_request and self._protocol.idle and not self._closing:
            self._waits_for_request = False
            self._set_deadline(self._limits.header_timeout_s)

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = trio.current_time() + seconds
        self._receiving.deadline = self._deadline

    async def _send(self, event: Event) -> None:
        match event:
            case RawData():
                await self._write(event.data)
            case Updated(idle=True):
                self._waits_for_request = True
                self._set_deadline(self._limits.keep_alive_s)
            case Updated():
                self._waits_for_request = False
                self._set_deadline(float("inf"))
            case Closed():
                self._close()

    async def _write(self, data: bytes) -> None:
        async with self._sending:
            for start in range(0, len(data), WRITE_BYTES):
                with trio.move_on_after(self._write_timeout_s) as deadline:
                    try:
                        await self._stream.send_all(data[start : start + WRITE_BYTES])
                    except (trio.BrokenResourceError, trio.ClosedResourceError):
                        self._scope.cancel()
                if deadline.cancelled_caught:
                    logger.info("A client took no byte for %g s and was dropped", self._write_timeout_s)
                    self._dropped()
                    self.abort()

    def _close(self) -> None:
        """Sends FIN and leaves the reader to discard what the client still sends, for a while.

        The task that ends a reply may be cancelled by that end, so the FIN is sent by one of the connection's own.
        """
        if self._closing:
            return
        self._closing = True
        self._closed.set()
        self._set_deadline(self._limits.linger_s)
        self._nursery.start_soon(self._send_eof)
        if self._handling is not None:
            self._handling.cancel()

    async def _send_eof(self) -> None:
        async with self._sending:
            try:
                await self._stream.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._scope.cancel()
