"""The items of a batch, side by side in the slots of their entry."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.http.collect import first_error
from audiocpp.daemon.http.sse import Stream

Opened = Callable[[], None]
Work = Callable[[int, Opened], Awaitable[Mapping[str, Any]]]
"""Does the item with this index and returns its event; calls the other argument once it has its slot and its model."""


async def run_side_by_side(work: Work, *, count: int, slots: int, stream: Stream, item: str) -> None:
    """Emits the events of all items in the order in which they are done.

    Each item is admitted like a request of its own, so that other requests get slots in between. The first alone has
    to wait for the model: what stands in its way still has a status. The first error ends all.

    Args:
        slots: most items underway.
        item: what an item is called in errors, with its index: `file` makes `file[3]: ...`.
    """
    indexes = iter(range(count))

    async def lane(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        def opened() -> None:
            if not stream.begun:
                stream.begin()
                task_status.started()

        for index in indexes:
            try:
                event = await work(index, opened)
            except DaemonError as error:
                error.message = f"{item}[{index}]: {error.message}"
                raise
            await stream.emit_event(event)

    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(lane)
            for _ in range(min(slots, count) - 1):
                nursery.start_soon(lane)
    except BaseExceptionGroup as group:
        raise first_error(group) from group
