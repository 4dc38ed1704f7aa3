"""A client that leaves frees what it held, at once, every time."""

import json
import socket
import struct
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.integration.daemon_process import DaemonProcess, eventually

from audiocpp.control.client import AdminClient

pytestmark = pytest.mark.integration

TRIES = 100
VANISHING = 100
HEALTH_S = 0.1
LIMIT_S = 0.5
"""Of 100 cancelled transcriptions 99 must have freed their slot by then."""

LIMIT_HOSTILE_S = 3.0
"""A run that goes on for 5 s is ended with its worker."""


@pytest.fixture(scope="session")
def minute_of_speech(tmp_path_factory: pytest.TempPathFactory, audio_files: dict[str, Path]) -> bytes:
    """A WAV file of 60 s."""
    samples, rate = soundfile.read(audio_files["two_cities.wav"], dtype="int16")
    path = tmp_path_factory.mktemp("speech") / "minute.wav"
    soundfile.write(path, np.tile(samples, 2)[: 60 * rate], rate, subtype="PCM_16")
    return path.read_bytes()


def upload(daemon: DaemonProcess, audio: bytes, *, sent: float = 1.0) -> socket.socket:
    """Sends a transcription request, or the given part of it, and returns its connection, the reply unread."""
    boundary = "frontier"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\nmoonshine\r\n'
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    body = head.encode() + audio + f"\r\n--{boundary}--\r\n".encode()
    host, port = daemon.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    head = (
        f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n"
    )
    connection.sendall(head.encode() + body[: int(sent * len(body))])
    return connection


def active(admin: AdminClient, model: str = "moonshine") -> int:
    return next((row["active_slots"] for row in admin.ps()["models"] if row["id"] == model), 0)


def speak(daemon: DaemonProcess, text: str) -> socket.socket:
    """Sends a speech request and returns its connection, the reply unread."""
    host, port = daemon.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    body = json.dumps({"model": "piper", "input": text, "stream_format": "audio"}).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("unit", ["![", "7", "漢", "a"])
def test_a_megabyte_of_hostile_text_costs_its_neighbours_nothing(daemon: DaemonProcess, unit: str) -> None:
    daemon.ctl("load", "piper")
    worker = daemon.ps()["piper"]["pid"]
    admin = AdminClient([str(daemon.admin_socket)])
    with daemon.client() as client:
        with speak(daemon, unit * (1_000_000 // len(unit))):
            eventually(lambda: active(admin, "piper"), what="the request did not start")
            beside = client.post("/v1/audio/speech", json={"model": "piper", "input": "Good morning."})
            assert beside.status_code == 200
        left = time.monotonic()
        eventually(lambda: not active(admin, "piper"), what="the slot was not freed")
        assert time.monotonic() - left < LIMIT_HOSTILE_S
    assert daemon.ps()["piper"]["pid"] == worker


def test_a_cancelled_transcription_frees_its_slot_within_half_a_second(
    daemon: DaemonProcess, minute_of_speech: bytes
) -> None:
    daemon.ctl("load", "moonshine")
    admin = AdminClient([str(daemon.admin_socket)])
    waits = []
    for _ in range(TRIES):
        with upload(daemon, minute_of_speech):
            eventually(lambda: active(admin), what="the request did not start")
        left = time.monotonic()
        eventually(lambda: not active(admin), what="the slot was not freed")
        waits.append(time.monotonic() - left)
    assert sorted(waits)[98] <= LIMIT_S, sorted(waits)[-5:]
    assert {row["id"]: row for row in admin.ps()["models"]}["moonshine"]["state"] == "ready"


def test_a_hundred_clients_that_vanish_leave_nothing_and_delay_nobody(
    daemon: DaemonProcess, minute_of_speech: bytes
) -> None:
    daemon.ctl("load", "moonshine")
    daemon.ctl("load", "piper")
    vanish(daemon, minute_of_speech, number=0)
    eventually(lambda: quiet(daemon), what="a first client was not forgotten")
    before = daemon.footprint()
    slowest = []
    with daemon.client() as client:
        for number in range(VANISHING):
            vanish(daemon, minute_of_speech, number=number)
            asked = time.monotonic()
            assert client.get("/health").status_code == 200
            slowest.append(time.monotonic() - asked)
    eventually(lambda: quiet(daemon), what="some client was not forgotten")
    eventually(lambda: daemon.footprint().within(before), what=f"more than before: {before}")
    assert sorted(slowest)[int(0.95 * VANISHING)] <= 3 * HEALTH_S


def vanish(daemon: DaemonProcess, audio: bytes, *, number: int) -> None:
    """Leaves in the middle of an upload, of a transcription or of a reply, by turns; every other time with a reset."""
    if number % 3 == 2:
        connection = speak(daemon, "One. " * 500)
    else:
        connection = upload(daemon, audio, sent=1.0 if number % 3 else 0.5)
    if number % 2:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def quiet(daemon: DaemonProcess) -> bool:
    rows = AdminClient([str(daemon.admin_socket)]).ps()["models"]
    return not any(row["active_slots"] or row["queued_requests"] for row in rows)
