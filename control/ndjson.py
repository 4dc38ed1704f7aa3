"""A reply that grows: one JSON object a line while the work goes on."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import trio
from quart.wrappers.response import ResponseBody

from audiocpp.control.protocol import HEARTBEAT_S

Event = Mapping[str, Any]
Report = Callable[[Event], None]
Work = Callable[[Report], Awaitable[Event]]
"""Reports events as it goes and returns the last one. It must turn its failures into an event itself."""

_BUFFERED_EVENTS = 256


class EventBody(ResponseBody):
    """Sends the events of `work`, with an `alive` event in longer pauses.

    The work runs while the body is being sent: a client that goes away cancels it. A client that reads slowly loses
    events in the middle, never the last one.
    """

    def __init__(self, work: Work, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._lines: AbstractAsyncContextManager[AsyncIterator[bytes]] = _lines(work, heartbeat_s)

    async def __aenter__(self) -> AsyncIterator[bytes]:
        return await self._lines.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._lines.__aexit__(exc_type, exc_value, tb)


@trio.as_safe_channel
async def _lines(work: Work, heartbeat_s: float) -> AsyncGenerator[bytes, None]:
    send, receive = trio.open_memory_channel[Event](_BUFFERED_EVENTS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_perform, work, send)
        while True:
            event: Event = {"event": "alive"}
            try:
                with trio.move_on_after(heartbeat_s):
                    event = await receive.receive()
            except trio.EndOfChannel:
                return
            yield json.dumps(event).encode() + b"\n"


async def _perform(work: Work, events: trio.MemorySendChannel[Event]) -> None:
    def report(event: Event) -> None:
        if events.statistics().current_buffer_used < _BUFFERED_EVENTS:
            events.send_nowait(event)

    async with events:
        await events.send(await work(report))
