"""A live session whose connection breaks again and again, on a real model."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import Served, websocket
from tests.integration.daemon_process import DaemonProcess
from tests.integration.live_client import LIMIT_S, events, heard, pcm_of
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors
from trio_websocket import WebSocketConnection

pytestmark = pytest.mark.integration

FRAME_BYTES = 1280
CUTS = (0.13, 0.31, 0.47, 0.52, 0.78, 0.94)
"""Where the connection breaks, in parts of the recording: within words and between them."""


@asynccontextmanager
async def connection(daemon: DaemonProcess, query: str) -> AsyncIterator[tuple[WebSocketConnection, dict[str, Any]]]:
    """An open connection and its first event. Its end is no close, just the end."""
    served = Served(int(daemon.url.rpartition(":")[2]), trio.Event(), trio.Event())
    async with websocket(served, f"/v1/audio/transcriptions/live?model=moonshine-live{query}") as socket:
        yield socket, json.loads(await socket.get_message())


async def test_a_session_that_breaks_at_many_places_hears_every_word_once(
    daemon: DaemonProcess, audio_files: dict[str, Path]
) -> None:
    pcm = pcm_of(audio_files["beckett.wav"])
    session, text, at, segments = "", "", 0, []
    with trio.fail_after(LIMIT_S):
        for cut in (*CUTS, None):
            query = f"&session_id={session}&offset={at // 2}" if session else ""
            async with connection(daemon, query) as (socket, created):
                assert created["resumed"] is bool(session)
                session, text = created["id"], created.get("text", "")
                at = 2 * created["next_sample"]
                until = len(pcm) if cut is None else round(cut * len(pcm))
                for start in range(at, until, FRAME_BYTES):
                    await socket.send_message(pcm[start : min(start + FRAME_BYTES, until)])
                at = until
                if cut is None:
                    await socket.send_message('{"type": "end"}')
                    received, code = await events(socket)
    text += "".join(event["delta"] for event in received if event["type"] == "transcript.text.delta")
    segments = [event["id"] for event in received if event["type"] == "transcript.segment"]
    done = received[-1]
    assert (done["type"], code) == ("transcript.text.done", 1000)
    assert done["text"] == text
    assert done["timing"]["audio_ms"] == pytest.approx(len(pcm) / 32, abs=0.1)
    assert segments == sorted(set(segments))
    assert word_errors(passage("beckett"), text) <= MAX_WORD_ERRORS
    assert word_errors(await heard(daemon, pcm), text) <= 0.05
