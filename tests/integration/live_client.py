"""A client of the live WebSocket of a real daemon."""

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import soundfile
import soxr
import trio
from tests.fakes.asgi import Served, websocket
from tests.integration.daemon_process import DaemonProcess
from trio_websocket import ConnectionClosed, WebSocketConnection

LIMIT_S = 60
FRAME_BYTES = 641
"""An odd number: every second frame begins inside a sample."""


def pcm_of(path: Path, *, sample_rate: int = 16_000, seconds: float | None = None) -> bytes:
    """The recording, or its beginning, as mono PCM16."""
    samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    end = None if seconds is None else round(seconds * rate_hz)
    mono = soxr.resample(samples[:end, 0], rate_hz, sample_rate)
    return (mono * 32767).astype("<i2").tobytes()


@asynccontextmanager
async def session(daemon: DaemonProcess, query: str = "") -> AsyncIterator[WebSocketConnection]:
    """An open session; the whole block has a deadline."""
    served = Served(int(daemon.url.rpartition(":")[2]), trio.Event(), trio.Event())
    with trio.fail_after(LIMIT_S):
        async with websocket(served, f"/v1/audio/transcriptions/live?model=moonshine-live{query}") as socket:
            created = json.loads(await socket.get_message())
            assert created["type"] == "session.created"
            yield socket


async def send(socket: WebSocketConnection, pcm: bytes) -> None:
    for start in range(0, len(pcm), FRAME_BYTES):
        await socket.send_message(pcm[start : start + FRAME_BYTES])


async def events(socket: WebSocketConnection) -> tuple[list[dict[str, Any]], int]:
    """Everything until the close, and its code."""
    received: list[dict[str, Any]] = []
    with pytest.raises(ConnectionClosed) as closed:
        await _collect(socket, received)
    assert closed.value.reason is not None
    return received, closed.value.reason.code


async def _collect(socket: WebSocketConnection, received: list[dict[str, Any]]) -> None:
    while True:
        received.append(json.loads(await socket.get_message()))


async def transcript(socket: WebSocketConnection, pcm: bytes) -> tuple[list[dict[str, Any]], int]:
    """Sends `pcm` and the end; everything that comes until the close, and its code."""
    async with trio.open_nursery() as nursery:

        async def speak() -> None:
            with contextlib.suppress(ConnectionClosed):  # the reason is among the events
                await send(socket, pcm)
                await socket.send_message('{"type": "end"}')

        nursery.start_soon(speak)
        return await events(socket)


async def heard(daemon: DaemonProcess, pcm: bytes, query: str = "") -> str:
    """The final text of a session that is closed as it must be."""
    async with session(daemon, query) as socket:
        received, code = await transcript(socket, pcm)
    assert (received[-1]["type"], code) == ("transcript.text.done", 1000), received[-1]
    return str(received[-1]["text"])
