"""Runs the app for each request of a connection, in place of hypercorn's task group."""

import logging
from collections.abc import Awaitable, Callable

import trio
from hypercorn.config import Config
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

logger = logging.getLogger(__name__)


class AppTasks:
    """The `TaskGroup` that hypercorn's protocol classes ask for, in a nursery that the connection owns."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Starts the app. The returned function hands it an event, or drops the event when the app has ended.

        hypercorn's own would wait for ever in the second case, and the connection's reader with it.
        """
        put, get = trio.open_memory_channel[ASGIReceiveEvent](config.max_app_queue_size)

        async def deliver(event: ASGIReceiveEvent) -> None:
            try:
                await put.send(event)
            except trio.BrokenResourceError:
                logger.debug("The app ended before %s", event["type"])

        async def run() -> None:
            async with get:
                await _run_app(app, scope, get.receive, send)

        self._nursery.start_soon(run)
        return deliver

    def spawn(self, func: Callable[..., Awaitable[object]], *args: object) -> None:
        self._nursery.start_soon(func, *args)


async def _run_app(
    app: AppWrapper,
    scope: Scope,
    receive: Callable[[], Awaitable[ASGIReceiveEvent]],
    send: Callable[[ASGISendEvent | None], Awaitable[None]],
) -> None:
    try:
        await app(scope, receive, send, trio.to_thread.run_sync, trio.from_thread.run)
    except* Exception:
        logger.exception("The app failed on a %s connection", scope["type"])
    await send(None)  # completes or breaks off the reply
