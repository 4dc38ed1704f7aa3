"""Bad input to a running daemon: a 4xx with field and reason, at once, and nothing left behind."""

import io
import json
import socket
import time
import wave
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.daemon_process import DaemonProcess, eventually

pytestmark = pytest.mark.integration

LIMIT_S = 3 * 0.1
"""Three times what an idle machine must keep."""
TRANSCRIPTIONS = "/v1/audio/transcriptions"


def wav(frames: bytes = b"", *, rate_hz: int = 16_000, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate_hz)
        out.writeframes(frames)
    return file.getvalue()


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    """A connection that is open, to a daemon whose codec worker has started."""
    with daemon.client() as client:
        client.post(TRANSCRIPTIONS, files={"file": ("a", b"warm up")})
        yield client


def refused(client: httpx.Client, request: dict[str, Any]) -> tuple[httpx.Response, float]:
    """The reply and the shortest time of three, since other processes share the processor."""
    times = []
    for _ in range(3):
        started = time.monotonic()
        response = client.request(**request)
        times.append(time.monotonic() - started)
    return response, min(times)


def upload(data: bytes, **fields: str) -> dict[str, Any]:
    return {"method": "POST", "url": TRANSCRIPTIONS, "files": {"file": ("speech", data)}, "data": fields}


def speech(content: bytes, **headers: str) -> dict[str, Any]:
    return {"method": "POST", "url": "/v1/audio/speech", "content": content, "headers": headers}


CASES: dict[str, tuple[dict[str, Any], int, str | None]] = {
    "unknown model": (upload(wav(bytes(320)), model="nope"), 404, "model"),
    "unknown model on a JSON route": (speech(b'{"model": "nope", "input": "a"}'), 404, "model"),
    "malformed JSON": (speech(b"{"), 400, None),
    "duplicate keys": (speech(b'{"input": "a", "input": "b"}'), 400, None),
    "a missing field": (speech(b'{"model": "piper"}'), 400, "input"),
    "a wrong type": (speech(b'{"model": "piper", "input": 1}'), 400, "input"),
    "an empty part": (upload(b""), 400, "file"),
    "a part of one byte": (upload(b"x"), 400, "file"),
    "a text file": (upload(b"this is not audio\n" * 50), 400, "file"),
    "a JPEG": (upload(b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(500)), 400, "file"),
    "a WAV cut in its header": (upload(wav(bytes(320))[:30]), 400, "file"),
    "no file": ({"method": "POST", "url": TRANSCRIPTIONS, "files": {"model": (None, "moonshine")}}, 400, "file"),
    "a foreign Origin": (speech(b"{}", Origin="https://evil.example"), 403, None),
    "a foreign Host": (speech(b"{}", Host="evil.example"), 403, None),
    "an unknown path": ({"method": "GET", "url": "/v2/audio"}, 404, None),
    "a wrong method": ({"method": "DELETE", "url": TRANSCRIPTIONS}, 405, None),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_answered_at_once(client: httpx.Client, name: str) -> None:
    request, status, param = CASES[name]
    response, took_s = refused(client, request)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param), error
    assert error["message"]
    assert took_s < LIMIT_S


def test_a_browser_recording_names_its_container(client: httpx.Client) -> None:
    webm = b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81\x01\x42\xf2\x81\x04\x42\xf3\x81\x08\x42\x82\x84webm"
    response = client.request(**upload(webm + bytes(100)))
    assert response.status_code in (400, 415)
    assert "webm" in response.json()["error"]["message"].lower()


def test_a_length_of_three_gigabytes_is_refused_at_once(daemon: DaemonProcess) -> None:
    port = int(daemon.url.rpartition(":")[2])
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        started = time.monotonic()
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
        assert time.monotonic() - started < LIMIT_S


def test_a_byte_after_the_upgrade_harms_only_that_connection(daemon: DaemonProcess, client: httpx.Client) -> None:
    port = int(daemon.url.rpartition(":")[2])
    head = (
        b"GET /v1/audio/transcriptions/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(head + b"x")
        assert connection.recv(65536).startswith(b"HTTP/1.1 400")
    assert client.get("/health").status_code == 200


def test_a_wav_with_a_header_only_is_empty_text(client: httpx.Client) -> None:
    response = client.request(**upload(wav()))
    assert (response.status_code, response.json()["text"]) == (200, "")


def test_nothing_is_left_of_refused_requests(daemon: DaemonProcess, client: httpx.Client) -> None:
    before = daemon.footprint()
    for request, _, _ in 2 * list(CASES.values()):
        client.request(**request)
    eventually(lambda: daemon.footprint().within(before), what=f"more than before: {before}")


def test_nothing_is_left_of_refused_uploads(daemon: DaemonProcess, client: httpx.Client) -> None:
    for _ in range(3):
        assert client.request(**upload(b"text" * (1 << 20))).status_code == 400
    # They go when the reply has been sent, perhaps after it has been received.
    eventually(lambda: not daemon.footprint().uploads, limit_s=1.0, what="an upload is left")
    rows = client.get("/v1/models").json()["data"]
    assert [row["active_slots"] for row in rows] == [0] * len(rows)


def test_refusals_are_logged_without_a_stack_trace(daemon: DaemonProcess, client: httpx.Client) -> None:
    response = client.post(TRANSCRIPTIONS, files={"file": ("a", b"x")}, headers={"X-Request-Id": "seek-me"})
    assert response.headers["X-Request-Id"] == "seek-me"
    records = [record for record in daemon.log if record.get("request_id") == "seek-me"]
    assert {record["level"] for record in records} == {"info"}
    assert json.dumps(records).count("Traceback") == 0
