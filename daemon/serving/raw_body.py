"""Request bodies that the app gets as they are on the wire, chunk framing included, while it already replies.

h11 undoes chunks too, but tells nothing of their sizes, and of what is wrong with them only that the connection is
broken. A route that answers while its request still comes has to say it in that answer.
"""

from collections.abc import Set
from dataclasses import replace

import h11
from hypercorn.protocol.events import EndBody, Event, Request
from hypercorn.protocol.h11 import STREAM_ID, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.typing import ConnectionState

RAW_BODY = "raw_body"
"""In the ASGI scope's `state` of such a request."""


def has_raw_body(request: h11.Request, paths: Set[str]) -> bool:
    """Whether it is a chunked POST to one of `paths`."""
    if request.method != b"POST" or request.target.partition(b"?")[0].decode("ascii") not in paths:
        return False
    # h11 has refused every other coding, and several.
    return any(name == b"transfer-encoding" for name, _ in request.headers)


class RawBodyConnection(H11WSConnection):
    """Stands in for h11's connection after the head of the request. Replies still go through that one."""

    @property
    def they_are_waiting_for_100_continue(self) -> bool:  # type: ignore[override]
        return self.h11_connection.they_are_waiting_for_100_continue

    def next_event(self) -> h11.Data | type[h11.NEED_DATA]:  # type: ignore[override]
        if not self.buffer:
            return h11.NEED_DATA
        data, self.buffer = bytes(self.buffer), bytearray()
        return h11.Data(data=data)


class RawBodyStream(HTTPStream):
    """Such a request. Its body ends with what the client sends; where its chunks end, the app knows."""

    async def handle(self, event: Event) -> None:
        if isinstance(event, Request):
            event = replace(event, state=ConnectionState({**event.state, RAW_BODY: True}))
        await super().handle(event)

    async def end(self) -> None:
        """The client sends nothing any more. It may still read."""
        await self.handle(EndBody(stream_id=STREAM_ID))
