"""The accept loop and the stop."""

import logging
import ssl
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework

from audiocpp.daemon.serving.connection import Connection
from audiocpp.daemon.serving.limits import ServingLimits
from audiocpp.daemon.serving.listeners import Listener
from audiocpp.daemon.serving.protocol import StackConfig, error_body
from audiocpp.daemon.serving.tls import TlsStream

logger = logging.getLogger(__name__)

HANGUP_POLL_S = 0.25
REFUSAL_TIMEOUT_S = 1.0

ReadPeer = Callable[[trio.socket.SocketType], object]


async def serve(
    app: ASGIFramework,
    listeners: Sequence[Listener],
    *,
    limits: ServingLimits,
    stop: trio.Event,
    read_peer: ReadPeer | None = None,
    raw_bodies: Set[str] = frozenset(),
    tls: ssl.SSLContext | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves `app` until `stop` is set and the running requests are done.

    In the ASGI scope, `state` carries `peer` (the result of `read_peer` for a connection to a Unix socket, else
    None), `loopback` (of its listener), `stopping` (the event `stop`), `background` (a nursery for what outlives its
    connection; no error may leave it), `abort` (resets the connection) and `limit_writes` (sets its write deadline).

    Args:
        read_peer: called once per Unix connection; an OSError closes that connection.
        raw_bodies: paths whose chunked bodies reach the app as they are on the wire (see `raw_body`). A client that
            half-closes such a connection is still answered.
        tls: for all connections; None: they are not encrypted.

    Resource handling:
        The listeners are closed when `stop` is set, and at the end. Then idle connections are closed, running
        requests have `limits.drain_s`, and what is left is cancelled.

    Error handling:
        An error in a connection, whatever it is, is logged and ends that connection. An accept that fails for want
        of descriptors or memory is retried (as `trio.serve_listeners` does); any other accept error propagates.
    """
    async with trio.open_nursery() as background:
        given = {"stopping": stop, "background": background}
        server = _Server(app, limits=limits, given=given, read_peer=read_peer, raw_bodies=raw_bodies, tls=tls)
        background.start_soon(server.watch_for_hangups)
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                for listener in listeners:
                    await accepting.start(partial(server.accept, listener, connections))
                task_status.started()
                await stop.wait()
                accepting.cancel_scope.cancel()
            connections.cancel_scope.deadline = trio.current_time() + limits.drain_s
            await server.close_idle()
        background.cancel_scope.cancel()


class _Server:
    def __init__(
        self,
        app: ASGIFramework,
        *,
        limits: ServingLimits,
        given: Mapping[str, Any],
        read_peer: ReadPeer | None,
        raw_bodies: Set[str],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._app = ASGIWrapper(app)
        self._limits = limits
        self._config = StackConfig(limits, raw_bodies=raw_bodies)
        self._context = WorkerContext(None)
        self._given = given
        self._read_peer = read_peer
        self._tls = tls
        self._connections: set[Connection] = set()

    async def accept(
        self,
        listener: Listener,
        connections: trio.Nursery,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        handler = partial(self._serve_connection, listener)
        async with trio.open_nursery() as nursery:
            await nursery.start(
                partial(trio.serve_listeners, handler, [listener.stream_listener], handler_nursery=connections)
            )
            task_status.started()

    async def close_idle(self) -> None:
        await self._context.terminated.set()  # replies from now on end their connection
        for connection in self._connections:
            connection.close_if_idle()

    async def watch_for_hangups(self) -> None:
        while True:
            await trio.sleep(HANGUP_POLL_S)
            for connection in self._connections:
                connection.cancel_if_peer_left()

    async def _serve_connection(self, listener: Listener, accepted: trio.SocketStream) -> None:
        try:
            stream = accepted if self._tls is None else TlsStream(accepted, self._tls)
            if len(self._connections) >= self._limits.max_connections:
                await _refuse(stream)
            else:
                await self._run_connection(stream, self._state(listener, accepted))
        except* OSError as errors:  # of its socket: the app's own errors end in `AppTasks`
            logger.info("A connection to %s broke: %s", listener.address, errors.exceptions[0])
        except* Exception:
            logger.exception("A connection to %s failed", listener.address)

    async def _run_connection(self, stream: trio.SocketStream | TlsStream, state: dict[str, Any]) -> None:
        connection = Connection(
            self._app, stream, limits=self._limits, config=self._config, context=self._context, state=state
        )
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def _state(self, listener: Listener, stream: trio.SocketStream) -> dict[str, Any]:
        reads_peer = self._read_peer is not None and listener.unix
        peer = self._read_peer(stream.socket) if self._read_peer is not None and reads_peer else None
        return {"peer": peer, "loopback": listener.loopback, **self._given}


async def _refuse(stream: trio.SocketStream | TlsStream) -> None:
    body = error_body("too many connections are open; try again shortly", kind="server_busy", code="server_busy")
    head = (
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    async with stream:
        with trio.move_on_after(REFUSAL_TIMEOUT_S):
            await stream.send_all(head + body)
            await stream.send_eof()
            # Reading the request keeps the close from resetting the connection before the client has the reply.
            async for _ in stream:
                continue
