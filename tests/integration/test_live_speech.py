"""Speech of a text that comes in pieces, on a real model; what is said is read back by another."""

import io
import json
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from tests.fakes.asgi import Served, websocket
from tests.integration.daemon_process import DaemonProcess, eventually
from tests.integration.live_client import LIMIT_S
from tests.integration.passages import word_errors
from trio_websocket import ConnectionClosed, WebSocketConnection

pytestmark = pytest.mark.integration

TEXT = "It was the best of times. It was the worst of times. Dr. Smith was reading a book, and the sun was shining."


@asynccontextmanager
async def speaking(daemon: DaemonProcess) -> AsyncIterator[tuple[WebSocketConnection, dict[str, Any]]]:
    served = Served(int(daemon.url.rpartition(":")[2]), trio.Event(), trio.Event())
    with trio.fail_after(LIMIT_S):
        async with websocket(served, "/v1/audio/speech/live?model=piper") as socket:
            created = json.loads(await socket.get_message())
            assert created["type"] == "speech.created"
            yield socket, created


async def control(socket: WebSocketConnection, kind: str, **more: str) -> None:
    await socket.send_message(json.dumps({"type": kind, **more}))


async def heard(socket: WebSocketConnection, until: str) -> bytes:
    """The audio before an event."""
    pcm = b""
    while True:
        message = await socket.get_message()
        if isinstance(message, bytes):
            pcm += message
        elif json.loads(message)["type"] == until:
            return pcm
        else:
            pytest.fail(message)


def transcript(daemon: DaemonProcess, pcm: bytes, rate_hz: int) -> str:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, rate_hz, 0, "NONE", ""))
        out.writeframes(pcm)
    with daemon.client() as client:
        answer = client.post("/v1/audio/transcriptions", files={"file": file.getvalue()}, data={"model": "moonshine"})
    return str(answer.json()["text"])


async def test_a_text_in_pieces_is_spoken_whole(daemon: DaemonProcess) -> None:
    async with speaking(daemon) as (socket, created):
        for start in range(0, len(TEXT), 3):
            await control(socket, "text", text=TEXT[start : start + 3])
        first = await socket.get_message()  # while the text has no end yet
        assert isinstance(first, bytes)
        await control(socket, "flush")
        pcm = first + await heard(socket, "speech.flushed")
        await control(socket, "text", text="Good night")
        await control(socket, "end")
        pcm += await heard(socket, "speech.audio.done")
        with pytest.raises(ConnectionClosed) as closed:
            await socket.get_message()
    assert closed.value.reason is not None
    assert closed.value.reason.code == 1000
    assert len(pcm) % 2 == 0
    text = await trio.to_thread.run_sync(transcript, daemon, pcm, created["sample_rate"])
    assert word_errors(TEXT.replace("Dr.", "Doctor") + " Good night", text.replace("Dr.", "Doctor")) <= 0.1


async def test_a_client_that_leaves_is_not_spoken_to_any_longer(daemon: DaemonProcess) -> None:
    async with speaking(daemon) as (socket, _):
        await control(socket, "text", text=TEXT * 50)
        await control(socket, "end")
        assert isinstance(await socket.get_message(), bytes)
    await trio.to_thread.run_sync(
        lambda: eventually(lambda: daemon.ps()["piper"]["active_slots"] == 0, limit_s=1.5, what="it speaks on")
    )
