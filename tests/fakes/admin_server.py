"""The admin app on a real Unix socket, and a thread for its blocking clients."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio
from hypercorn.typing import ASGIFramework

from audiocpp.control.backend import AdminBackend
from audiocpp.control.peer import read_peer_credentials
from audiocpp.control.rights import AccessPolicy
from audiocpp.control.server import create_admin_app
from audiocpp.daemon.serving import Listener, ServingLimits, open_tcp_listener, open_unix_listener, serve

T = TypeVar("T")

TIMEOUT_S = 10.0


@asynccontextmanager
async def serving(app: ASGIFramework, listener: Listener) -> AsyncIterator[None]:
    stop = trio.Event()
    limits = ServingLimits(drain_s=0.1)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, app, [listener], limits=limits, stop=stop, read_peer=read_peer_credentials))
        yield
        stop.set()


@asynccontextmanager
async def admin_socket(
    backend: AdminBackend, folder: Path, *, policy: AccessPolicy | None = None
) -> AsyncIterator[str]:
    """The path of a socket on which the admin app answers."""
    path = folder / "admin.sock"
    with trio.fail_after(TIMEOUT_S):
        async with serving(create_admin_app(backend, policy=policy), open_unix_listener(path)):
            yield str(path)


@asynccontextmanager
async def public_url(app: ASGIFramework) -> AsyncIterator[str]:
    """The URL of `app` on a free port."""
    listener = open_tcp_listener("127.0.0.1", 0)
    with trio.fail_after(TIMEOUT_S):
        async with serving(app, listener):
            yield f"http://127.0.0.1:{listener.port}"


async def in_thread(call: Callable[[], T]) -> T:
    """Run a blocking client while the server goes on. At a timeout the thread is left behind, not waited for."""
    return await trio.to_thread.run_sync(call, abandon_on_cancel=True)
