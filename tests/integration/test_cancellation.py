"""A client that leaves frees what it held, at once, every time."""

import socket
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.integration.daemon_process import DaemonProcess, eventually

from audiocpp.control.client import AdminClient

pytestmark = pytest.mark.integration

TRIES = 100
LIMIT_S = 0.5
"""Of 100 cancelled transcriptions 99 must have freed their slot by then."""


@pytest.fixture(scope="session")
def minute_of_speech(tmp_path_factory: pytest.TempPathFactory, audio_files: dict[str, Path]) -> bytes:
    """A WAV file of 60 s."""
    samples, rate = soundfile.read(audio_files["two_cities.wav"], dtype="int16")
    path = tmp_path_factory.mktemp("speech") / "minute.wav"
    soundfile.write(path, np.tile(samples, 2)[: 60 * rate], rate, subtype="PCM_16")
    return path.read_bytes()


def upload(daemon: DaemonProcess, audio: bytes) -> socket.socket:
    """Sends a transcription request and returns its connection, the reply unread."""
    boundary = "frontier"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\nmoonshine\r\n'
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    body = head.encode() + audio + f"\r\n--{boundary}--\r\n".encode()
    host, port = daemon.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(
        f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n".encode()
        + body
    )
    return connection


def active(admin: AdminClient) -> int:
    return next((row["active_slots"] for row in admin.ps()["models"] if row["id"] == "moonshine"), 0)


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
