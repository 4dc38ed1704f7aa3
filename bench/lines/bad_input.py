"""Requests that are wrong. Each has to be answered as such, and at once."""

import json
import struct
import time
from dataclasses import dataclass

import trio
from trio_websocket import open_websocket

from bench.bed import ABSOLUTE_RUNS, Bed
from bench.daemon_process import Daemon
from bench.http_client import Request, form_request, json_request
from bench.report import Figure, Report
from bench.samples import median, percentile

_SPEECH, _TRANSCRIPTIONS = "/v1/audio/speech", "/v1/audio/transcriptions"
_JSON = {"Content-Type": "application/json"}
_LIMIT_MS = 100


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    request: Request
    status: int


def bad_input(bed: Bed) -> Report:
    with bed.folder.start() as daemon:
        _warm_up(daemon, bed.material.recordings["beckett"].read_bytes())
        figures = [_measured(daemon, case) for case in _cases()]
        figures.append(_figure("WebSocket text that is no JSON", _bad_control_frames_ms(daemon), "an error event"))
    why = "a client that errs in a loop may not cost more than one that does not; nothing is loaded or queued for it"
    return Report("bad input, the models resident", figures, notes=[why])


def _warm_up(daemon: Daemon, recording: bytes) -> None:
    daemon.http.expect_ok(form_request(_TRANSCRIPTIONS, {"model": "moonshine"}, file=recording))


def _measured(daemon: Daemon, case: _Case) -> Figure:
    times_ms = []
    for _ in range(ABSOLUTE_RUNS):
        reply = daemon.http.send(case.request)
        if reply.status != case.status:
            raise RuntimeError(f"{case.name}: {reply.status} instead of {case.status}: {reply.body[:300]!r}")
        times_ms.append(1e3 * reply.wall_s)
    return _figure(case.name, times_ms, f"status {case.status}")


def _bad_control_frames_ms(daemon: Daemon) -> list[float]:
    """Milliseconds from each bad control frame to its `error` event, in one session that goes on."""

    async def converse() -> list[float]:
        times_ms = []
        path = "/v1/audio/transcriptions/live?model=moonshine-live"
        async with open_websocket(daemon.http.host, daemon.http.port, path, use_ssl=False) as socket:
            await socket.get_message()  # session.created
            for _ in range(ABSOLUTE_RUNS):
                started = time.perf_counter()
                await socket.send_message("{finalize")
                event = json.loads(await socket.get_message())
                times_ms.append(1e3 * (time.perf_counter() - started))
                if event["type"] != "error":
                    raise RuntimeError(f"an error event was expected, not {event}")
        return times_ms

    return trio.run(converse)


def _figure(name: str, times_ms: list[float], answer: str) -> Figure:
    return Figure(
        name=name,
        value=median(times_ms),
        unit="ms",
        limit=_LIMIT_MS,
        samples=len(times_ms),
        made_of=f"p95 {percentile(times_ms, 95):.0f} ms; {answer}",
    )


def _cases() -> list[_Case]:
    return [*_bad_documents(), *_bad_recordings(), *_bad_headers()]


def _bad_documents() -> list[_Case]:
    def body(text: str) -> Request:
        return Request("POST", _SPEECH, text.encode(), _JSON)

    return [
        _Case("unknown model", json_request(_SPEECH, {"model": "nobody", "input": "Hello."}), 404),
        _Case("malformed JSON", body('{"model": "piper", "input": '), 400),
        _Case("duplicate JSON keys", body('{"model": "piper", "input": "a", "input": "b"}'), 400),
        _Case("missing field", json_request(_SPEECH, {"model": "piper"}), 400),
        _Case("wrong type", json_request(_SPEECH, {"model": "piper", "input": 5}), 400),
        _Case("nothing to speak", json_request(_SPEECH, {"model": "piper", "input": " \n"}), 400),
        _Case("no such path", json_request(_TRANSCRIPTIONS, {"model": "moonshine", "audio": "/nowhere.wav"}), 400),
    ]


def _bad_recordings() -> list[_Case]:
    def upload(file: bytes) -> Request:
        return form_request(_TRANSCRIPTIONS, {"model": "moonshine"}, file=file)

    return [
        _Case("no file part", form_request(_TRANSCRIPTIONS, {"model": "moonshine"}), 400),
        _Case("empty file part", upload(b""), 400),
        _Case("file of 1 byte", upload(b"x"), 400),
        _Case("text as audio", upload(b"This is no recording. " * 1000), 400),
        _Case("WAV of a header only", upload(_wav_header(0)), 200),
        _Case("WAV of unknown length", upload(_wav_header(0xFFFFFFFF) + bytes(32_000)), 200),
        _Case("WAV cut off in its header", upload(_wav_header(0)[:30]), 400),
    ]


def _bad_headers() -> list[_Case]:
    def with_header(name: str, value: str) -> Request:
        return Request("POST", _SPEECH, json.dumps({"model": "piper", "input": "Hello."}).encode(), {name: value})

    return [
        _Case("3 GB announced", with_header("Content-Length", "3000000000"), 413),
        _Case("foreign Origin", with_header("Origin", "https://elsewhere.example"), 403),
        _Case("foreign Host", with_header("Host", "elsewhere.example"), 403),
        _Case("unknown path", Request("GET", "/v1/nothing"), 404),
        _Case("wrong method", Request("GET", _SPEECH), 405),
    ]


def _wav_header(data_bytes: int) -> bytes:
    """Mono, 16 bits, 16 kHz."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 16_000, 32_000, 2, 16)
    riff_bytes = min(36 + data_bytes, 0xFFFFFFFF)
    return struct.pack("<4sI4s", b"RIFF", riff_bytes, b"WAVE") + form + struct.pack("<4sI", b"data", data_bytes)
