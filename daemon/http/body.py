"""Reads request bodies under limits."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import trio
from quart import request

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import BodyTooLarge, RequestTimeout, RequestTooLarge
from audiocpp.daemon.frontends import WEBSOCKET
from audiocpp.daemon.http.body_log import log_json

IDLE_TIMEOUT_S = 30.0
"""Longest pause within a body."""

MAX_JSON_BYTES = 64 << 20
"""A JSON body is held in memory whole; larger audio goes as multipart."""


async def body_pieces() -> AsyncGenerator[bytes]:
    """The body as it comes. Raises `BodyTooLarge`, before reading where the length is declared, or `RequestTimeout`."""
    limit = backend().services.config.max_request_body_bytes
    check_declared_length(limit)
    received = 0
    pieces = aiter(request.body)
    while True:
        with trio.move_on_after(IDLE_TIMEOUT_S) as idle:
            piece = await anext(pieces, None)
        if idle.cancelled_caught:
            raise RequestTimeout(f"no byte of the body came for {IDLE_TIMEOUT_S:g} s")
        if piece is None:
            return
        received += len(piece)
        if received > limit:
            raise too_large(limit)
        yield piece


def check_declared_length(limit: int) -> None:
    declared = request.content_length
    if declared is not None and declared > limit:
        raise too_large(limit)


async def whole_body() -> bytearray:
    """The body in memory, for JSON."""
    check_declared_length(MAX_JSON_BYTES)
    body = bytearray()
    async with aclosing(body_pieces()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > MAX_JSON_BYTES:
                raise too_large(MAX_JSON_BYTES)
    if backend().services.config.log_request_body:
        log_json(bytes(body))
    return body


def too_large(limit: int) -> BodyTooLarge:
    """The refusal of a body beyond `limit` bytes."""
    bridged = backend().services.config.frontend_listener == WEBSOCKET
    kind = RequestTooLarge if bridged else BodyTooLarge
    return kind(f"the request body exceeds the maximum of {limit} bytes")
