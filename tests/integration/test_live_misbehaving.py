"""Live clients that misbehave harm only themselves: memory stays bounded, their place is free within a second, others
are answered, and the daemon stops in time while they are connected."""

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration.daemon_process import DaemonProcess, eventually, running_daemon
from tests.integration.live_client import pcm_of
from tests.integration.raw_live import PATH, TEXT, RawClient, frame, raw_client, resident_bytes

from audiocpp.control.client import AdminClient

pytestmark = pytest.mark.integration

MIB = 1 << 20
LIMITS = {"idle_timeout_ms": 2000, "send_timeout_ms": 1000}
SLOTS = 4
DRAIN_S = 10.0
"""How long a stopping daemon waits for its clients."""

BOUND_BYTES = 24 * MIB
"""What one misbehaving client may cost the control process: queues of a MiB each, and the allocator's slack."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, models_root: Path) -> Iterator[DaemonProcess]:
    """A daemon with few places and little patience, which waits for no client that is gone."""
    models = [{"id": "moonshine-live", "family": "moonshine_asr", "mode": "streaming", "slots": SLOTS}]
    with running_daemon(
        tmp_path_factory.mktemp("misbehaving"), models_root, models=models, live_ingest=LIMITS, resume_ms=0
    ) as running:
        running.ctl("load", "moonshine-live")
        yield running


@pytest.fixture(scope="module")
def pcm(audio_files: dict[str, Path]) -> bytes:
    return pcm_of(audio_files["beckett.wav"])


def active(daemon: DaemonProcess) -> int:
    (row,) = AdminClient([str(daemon.admin_socket)]).ps()["models"]
    return row["active_slots"] + row["queued_requests"]


def expect_free(daemon: DaemonProcess, *, within_s: float = 1.0) -> None:
    eventually(lambda: active(daemon) == 0, limit_s=within_s, what="the slot is still taken")


def expect_healthy(daemon: DaemonProcess) -> None:
    started = time.monotonic()
    with daemon.client() as client:
        assert client.get("/health").status_code == 200
    assert time.monotonic() - started < 1.0


@pytest.fixture(autouse=True)
def _bounded_memory(daemon: DaemonProcess) -> Iterator[None]:
    """Looks at the memory of the control process all the while."""
    before, most, ended = resident_bytes(daemon.pid), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.02):
            most = max(most, resident_bytes(daemon.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    assert most - before < BOUND_BYTES, f"{(most - before) / MIB:.1f} MiB"
    assert active(daemon) == 0


def test_one_that_never_reads_is_dropped(daemon: DaemonProcess) -> None:
    with raw_client(daemon, buffered=4096) as client:
        sent = client.send_while_taken(b"nonsense", opcode=TEXT, seconds=20)
        assert sent < 8 * MIB
        expect_healthy(daemon)
        expect_free(daemon, within_s=LIMITS["send_timeout_ms"] / 1e3 + 1)


def test_one_that_never_sends_is_told_and_closed(daemon: DaemonProcess) -> None:
    with raw_client(daemon) as client:
        received = client.read_to_the_end()
        assert b"live request body stalled" in received
        assert (1008).to_bytes(2, "big") in received
        expect_free(daemon)


def test_one_that_opens_a_connection_and_says_nothing_is_closed(daemon: DaemonProcess) -> None:
    with raw_client(daemon, None) as client:
        started = time.monotonic()
        assert client.read_to_the_end() == b""
        assert time.monotonic() - started < 15


def test_audio_at_a_hundred_times_real_time_is_held_back(daemon: DaemonProcess, pcm: bytes) -> None:
    with raw_client(daemon) as client:
        started, sent = time.monotonic(), 0
        while time.monotonic() - started < 5:
            client.send(pcm)
            sent += len(pcm)
        expect_healthy(daemon)
        client.reset()
        expect_free(daemon)
    assert sent / 32_000 > 20, "it was not faster than one speaks"


def test_a_half_close_ends_the_session(daemon: DaemonProcess, pcm: bytes) -> None:
    with raw_client(daemon) as client:
        client.send(pcm[:64_000])
        client.socket.shutdown(socket.SHUT_WR)
        expect_free(daemon)


def test_a_reset_ends_the_session(daemon: DaemonProcess, pcm: bytes) -> None:
    with raw_client(daemon) as client:
        client.send(pcm)
        client.reset()
        expect_free(daemon)


def test_text_for_audio_is_answered_and_the_session_goes_on(daemon: DaemonProcess, pcm: bytes) -> None:
    with raw_client(daemon) as client:
        for _ in range(50):
            client.send(b"AAAA" * 1000, opcode=TEXT)
        client.send(pcm)
        client.send(b'{"type": "end"}', opcode=TEXT)
        received = client.read_to_the_end()
    assert received.count(b"invalid_control") == 50
    assert b"transcript.text.done" in received
    expect_free(daemon)


def test_frames_of_one_byte_are_audio_like_any_other(daemon: DaemonProcess, pcm: bytes) -> None:
    short = pcm[: 2 * 32_000]
    texts = []
    for size in (1, len(short)):
        with raw_client(daemon) as client:
            pieces = [short[at : at + size] for at in range(0, len(short), size)]
            client.socket.sendall(b"".join(map(frame, pieces)))
            client.send(b'{"type": "end"}', opcode=TEXT)
            received = client.read_to_the_end()
        done = received[received.rindex(b'{"type": "transcript.text.done"') : received.rindex(b"}") + 1]
        texts.append(json.loads(done)["text"])
    assert texts[0] == texts[1] != ""
    expect_free(daemon)


def test_frames_of_the_largest_size_are_taken_and_held_back(daemon: DaemonProcess) -> None:
    with raw_client(daemon) as client:
        for _ in range(3):
            client.send(bytes(8 * MIB))
        expect_healthy(daemon)
        client.reset()
        expect_free(daemon)


def test_a_frame_that_is_larger_is_refused(daemon: DaemonProcess) -> None:
    with raw_client(daemon) as client:
        client.send(bytes(8 * MIB + 1))
        assert (1009).to_bytes(2, "big") in client.read_to_the_end()
        expect_free(daemon)


@pytest.mark.parametrize("rate_hz", [1000, 8000, 384_000])
def test_a_rate_that_is_not_that_of_the_audio_harms_nobody(daemon: DaemonProcess, pcm: bytes, rate_hz: int) -> None:
    with raw_client(daemon, f"{PATH}&sample_rate={rate_hz}") as client:
        client.send(pcm[: 3 * 32_000])
        client.send(b'{"type": "end"}', opcode=TEXT)
        assert b"transcript.text.done" in client.read_to_the_end()
    expect_free(daemon)


@pytest.mark.parametrize("kind", ["connects", "asks", "opens"])
def test_five_hundred_connections_in_a_second_leave_nothing(daemon: DaemonProcess, kind: str) -> None:
    """Those that open a session do it one after the other; the others are gone before they are answered."""
    count = 500 if kind != "opens" else 60
    for _ in range(count):
        client = RawClient(daemon)
        with client.socket:
            if kind == "asks":
                client.ask()
            elif kind == "opens":
                client.upgrade()
                client.send(bytes(3200))
            client.reset()
    expect_free(daemon, within_s=3.0)
    expect_healthy(daemon)
    eventually(lambda: daemon.footprint().descriptors < 100, what="connections are left")


def test_the_daemon_stops_in_time_while_all_of_them_are_connected(
    tmp_path: Path, models_root: Path, pcm: bytes
) -> None:
    models = [{"id": "moonshine-live", "family": "moonshine_asr", "mode": "streaming"}]
    with running_daemon(tmp_path, models_root, models=models) as daemon, ExitStack() as clients:
        daemon.ctl("load", "moonshine-live")

        def another(path: str | None = PATH, *, buffered: int | None = None) -> RawClient:
            return clients.enter_context(raw_client(daemon, path, buffered=buffered))

        another(buffered=4096).send_while_taken(b"nonsense", opcode=TEXT, seconds=5)
        another()
        another(None)
        another(None).socket.sendall(b"GET / HT")
        another().send_while_taken(bytes(8 * MIB), seconds=5)
        another("/v1/realtime").send(b"{", opcode=TEXT)
        another().socket.sendall(b"\x82\xff")
        gone = another()
        gone.send(pcm)
        gone.reset()
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(DRAIN_S + 1) == 0
