"""Many live sessions at the pace of speech, in a process of their own: the companion of the live bench.

Each session sends a recording in frames of 100 ms, every frame when a microphone would have it, and notes when each
event comes. All times are seconds since the session's first sample.
"""

import json
import time
from typing import Any

import soundfile
import soxr
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, open_websocket_url

from bench.companion import serve
from bench.http_client import HttpClient, Request

_FRAME_S = 0.1
_RATE_HZ = 16_000
_SPREAD_S = 4.0
"""Over which sessions start: people do not begin to speak all at once."""

_HEALTH_EVERY_S = 0.2


def sessions(host: str, port: int, target: str, path: str, count: int, seconds: float) -> dict[str, Any]:
    """Runs `count` sessions side by side on the first `seconds` of a mono recording, as PCM16 at 16 kHz.

    `sessions`: the `events` of each, with `arrived_s`, and `ended_s`, when it sent `end`. `health_s`: how long each
    `GET /health` took meanwhile.
    """
    samples, rate_hz = soundfile.read(path, dtype="float32")
    pcm = (32767 * soxr.resample(samples[: round(seconds * rate_hz)], rate_hz, _RATE_HZ)).astype("<i2").tobytes()
    return trio.run(_run, HttpClient(host, port), target, pcm, count)


async def _run(http: HttpClient, target: str, pcm: bytes, count: int) -> dict[str, Any]:
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    health_s: list[float] = []
    async with trio.open_nursery() as watching:
        watching.start_soon(_watch_health, http, health_s)
        async with trio.open_nursery() as speaking:
            for place in range(count):
                url = f"ws://{http.host}:{http.port}{target}"
                speaking.start_soon(_session, url, pcm, place * _SPREAD_S / count, found[place])
        watching.cancel_scope.cancel()
    return {"sessions": found, "health_s": health_s}


async def _session(url: str, pcm: bytes, delay_s: float, found: dict[str, Any]) -> None:
    await trio.sleep(delay_s)
    found["events"] = events = []
    async with open_websocket_url(url) as socket:
        await socket.get_message()  # session.created: the model is loaded
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_speak, socket, pcm, started, found)
            try:
                while True:
                    event = json.loads(await socket.get_message())
                    events.append(event | {"arrived_s": trio.current_time() - started})
            except ConnectionClosed:
                nursery.cancel_scope.cancel()


async def _speak(socket: WebSocketConnection, pcm: bytes, started: float, found: dict[str, Any]) -> None:
    frame_bytes = round(_FRAME_S * _RATE_HZ) * 2
    for place, start in enumerate(range(0, len(pcm), frame_bytes)):
        await trio.sleep_until(started + (place + 1) * _FRAME_S)
        await socket.send_message(pcm[start : start + frame_bytes])
    found["ended_s"] = trio.current_time() - started
    await socket.send_message('{"type": "end"}')


async def _watch_health(http: HttpClient, health_s: list[float]) -> None:
    while True:
        started = time.perf_counter()
        await trio.to_thread.run_sync(http.expect_ok, Request("GET", "/health"))
        health_s.append(time.perf_counter() - started)
        await trio.sleep(_HEALTH_EVERY_S)


if __name__ == "__main__":
    serve(sessions=sessions)
