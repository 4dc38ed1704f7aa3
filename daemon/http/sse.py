"""Server-sent events, and replies that grow while a run goes on."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import trio
from quart import Response

from audiocpp.daemon.http.connection import ReplyBroken, served_request
from audiocpp.daemon.http.errors import error_object

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"

BUFFERED_PIECES = 16

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def event(data: Mapping[str, Any]) -> bytes:
    """One event: a line of JSON. Non-ASCII text stays as it is."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


class Stream:
    """The body of a reply under way, as its producer sees it.

    `broken`: its last event is an error, after which a stream of events has no `[DONE]`.
    """

    def __init__(self, put: trio.MemorySendChannel[bytes], task_status: trio.TaskStatus[None]) -> None:
        self.begun = False
        self.broken = False
        self._put = put
        self._task_status = task_status

    def begin(self) -> None:
        """Nothing stands in the way any more: the reply is 200 from here on. The first piece says so by itself."""
        if not self.begun:
            self.begun = True
            self._task_status.started()

    async def emit(self, piece: bytes) -> None:
        self.begin()
        await self._put.send(piece)

    async def emit_event(self, data: Mapping[str, Any]) -> None:
        await self.emit(event(data))


Produce = Callable[[Stream], Awaitable[None]]


async def streamed_reply(
    produce: Produce,
    *,
    content_type: str = CONTENT_TYPE,
    headers: Mapping[str, str] = NO_HEADERS,
    buffered_pieces: int = BUFFERED_PIECES,
) -> Response:
    """A reply whose body `produce` emits, in a task that ends with the reply or with the client.

    At most `buffered_pieces` wait for a client that reads slowly.

    What `produce` raises before the reply has begun is raised here, so that the reply still gets its status. An error
    after that becomes an error event, or breaks the body off where the content is not events.
    """
    put, get = trio.open_memory_channel[bytes](buffered_pieces)
    await served_request().tasks.start(partial(_produce, produce, put, events=content_type == CONTENT_TYPE))
    response = Response(_body(get), headers=dict(headers), content_type=content_type)
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def _produce(
    produce: Produce,
    put: trio.MemorySendChannel[bytes],
    *,
    events: bool,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    stream = Stream(put, task_status)
    async with put:
        try:
            await produce(stream)
            stream.begin()
            if events and not stream.broken:
                await stream.emit(DONE)
        except Exception as error:
            if not stream.begun:
                raise
            shown = error_object(error)
            log.info("A streamed reply broke off: %s", shown["message"], extra={"code": shown["code"]})
            if not events:
                raise ReplyBroken from error
            await stream.emit(event({"type": "error", "error": shown}))


async def _body(get: trio.MemoryReceiveChannel[bytes]) -> AsyncIterator[bytes]:
    async with get:
        async for piece in get:
            yield piece
