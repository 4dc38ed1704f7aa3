"""POST /v1/audio/transcriptions/live: PCM as a chunked body, events back on the same connection meanwhile."""

import uuid
from collections.abc import AsyncIterator
from functools import partial
from typing import cast

import trio
from quart import Response, request

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.sse import Stream, streamed_reply
from audiocpp.daemon.live.driver import SessionDriver
from audiocpp.daemon.live.framing import ChunkedBody, FramingError
from audiocpp.daemon.live.messages import Audio, Broken, Close, Ended
from audiocpp.daemon.live.outbox import Outbox
from audiocpp.daemon.live.parameters import LiveParameters, live_parameters
from audiocpp.daemon.live.session import LiveSession
from audiocpp.daemon.serving.raw_body import RAW_BODY


async def live_upload() -> Response:
    """Live transcription of a chunked body."""
    require_chunked()
    parameters = live_parameters(request.args, backend().services.registry)
    return await streamed_reply(partial(_transcribe, parameters))


def require_chunked() -> None:
    """Raises `InvalidRequest` for a body that cannot be read while it comes."""
    if RAW_BODY not in request.scope["state"]:
        raise InvalidRequest(
            "live uploads need Transfer-Encoding: chunked, and nothing beside it", param="Transfer-Encoding"
        )


async def _transcribe(parameters: LiveParameters, stream: Stream) -> None:
    entry, state = parameters.entry, request.scope["state"]
    opened = backend().session(entry, parameters.request, busy_timeout_ms=parameters.busy_timeout_ms)
    async with opened as run, trio.open_nursery() as nursery:
        session = LiveSession(
            id=uuid.uuid4().hex,
            model=entry.id,
            audio=parameters.audio,
            limits=entry.live_ingest,
            opened_s=trio.current_time(),
            partials=parameters.partials,
            words=parameters.words,
            names_limits=False,
        )
        driver = SessionDriver(session)
        state["limit_writes"](entry.live_ingest.send_timeout_ms / 1e3 or float("inf"), lambda: None)
        nursery.start_soon(driver.drive, run, state["stopping"])
        nursery.start_soon(_receive, driver, entry.live_ingest.max_chunk_bytes)
        await stream.emit_event(session.created().event)
        await _send_all(driver.outbox, stream)
        nursery.cancel_scope.cancel()


async def _receive(driver: SessionDriver, max_chunk_bytes: int) -> None:
    body = ChunkedBody(max_chunk_bytes=max_chunk_bytes)
    try:
        async for data in cast("AsyncIterator[bytes]", request.body):
            if body.complete:
                continue
            driver.hear(Audio(b"", ends=False))  # framing alone is activity too
            for piece in body.feed(data):
                driver.hear(Audio(piece.data, piece.last, piece.framing_bytes))
            if body.complete:
                driver.hear(Ended())
            await driver.room()
        body.close()
    except FramingError as error:
        driver.hear(Broken(str(error)))


async def _send_all(outbox: Outbox, stream: Stream) -> None:
    while not isinstance(effect := await outbox.next(), Close):
        await stream.emit_event(effect.event)
        outbox.sent()
        stream.broken = effect.event["type"] == "error"
