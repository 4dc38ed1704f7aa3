"""Much at once: a recording of 2 GiB, and five hundred clients that stay connected."""

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import h11
import pytest
import trio
from tests.integration.daemon_process import DaemonProcess, running_daemon
from tests.integration.sampling import healthy, sampled

from audiocpp.daemon.memory import private_bytes

pytestmark = pytest.mark.integration

MIB = 1 << 20
UPLOAD_BYTES = (2 << 30) - 1
UPLOAD_MEMORY_BYTES = 300 * MIB
RATE_HZ, CHANNELS = 48_000, 2

CLIENTS = 500
REQUESTS_EACH = 6
MAX_P99_OF_P50 = 3.0


def wav_of_silence(size: int) -> Iterator[bytes]:
    """A WAV file of `size` bytes, piece by piece: PCM16, stereo, 48 kHz."""
    data = size - 44
    frame = 2 * CHANNELS
    fmt = struct.pack("<HHIIHH", 1, CHANNELS, RATE_HZ, RATE_HZ * frame, frame, 16)
    yield b"RIFF" + struct.pack("<I", size - 8) + b"WAVEfmt " + struct.pack("<I", 16) + fmt
    yield b"data" + struct.pack("<I", data)
    block = bytes(MIB)
    for _ in range(data // MIB):
        yield block
    yield bytes(data % MIB)


def multipart(size: int, boundary: str) -> Iterator[bytes]:
    """A form of `size` bytes with the recording and the model."""
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\nmoonshine\r\n'
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="long.wav"\r\n\r\n'
    tail = f"\r\n--{boundary}--\r\n"
    yield head.encode()
    yield from wav_of_silence(size - len(head) - len(tail))
    yield tail.encode()


def test_two_gibibytes_of_silence_are_heard_in_little_memory(daemon: DaemonProcess, models_root: Path) -> None:
    """They are 3.1 hours, which is within `max_audio_seconds`."""
    del models_root
    peak = 0

    def measure() -> None:
        nonlocal peak
        peak = max(peak, private_bytes(daemon.pid) + sum(map(private_bytes, daemon.children())))

    headers = {"Content-Type": "multipart/form-data; boundary=edge", "Content-Length": str(UPLOAD_BYTES)}
    with daemon.client() as client:
        measure()
        before, peak = peak, 0
        with sampled(measure, every_s=0.1), healthy(daemon):
            reply = client.post(
                "/v1/audio/transcriptions", content=multipart(UPLOAD_BYTES, "edge"), headers=headers, timeout=900
            )
    assert reply.status_code == 200, reply.text
    assert reply.json()["text"] == ""
    assert reply.json()["timing"]["audio_duration_ms"] == pytest.approx(UPLOAD_BYTES / 192, rel=1e-3)
    assert peak - before < UPLOAD_MEMORY_BYTES, f"{(peak - before) / MIB:.0f} MiB"


async def test_five_hundred_clients_that_stay_connected_are_served_alike(tmp_path: Path, models_root: Path) -> None:
    times_s: list[float] = []
    with running_daemon(tmp_path, models_root) as daemon:
        port = int(daemon.url.rpartition(":")[2])
        all_connected = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(CLIENTS):
                await nursery.start(stay_connected, port, all_connected, times_s)
            all_connected.set()
    times_s.sort()
    assert len(times_s) == CLIENTS * REQUESTS_EACH
    assert times_s[int(0.99 * len(times_s))] <= MAX_P99_OF_P50 * times_s[len(times_s) // 2]


async def stay_connected(
    port: int, go_on: trio.Event, times_s: list[float], *, task_status: trio.TaskStatus[None]
) -> None:
    """Requests on one connection, one after the other. 500 of httpx's connections would be slower than the server."""
    protocol = h11.Connection(h11.CLIENT)
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await ask(stream, protocol, port)
        task_status.started()
        await go_on.wait()
        for _ in range(REQUESTS_EACH):
            started = time.monotonic()
            await ask(stream, protocol, port)
            times_s.append(time.monotonic() - started)


async def ask(stream: trio.SocketStream, protocol: h11.Connection, port: int) -> None:
    request = h11.Request(method="GET", target="/v1/models/vad", headers=[("Host", f"127.0.0.1:{port}")])
    await stream.send_all(protocol.send(request) + protocol.send(h11.EndOfMessage()))
    while not isinstance(event := protocol.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            protocol.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Response):
            assert event.status_code == 200
    protocol.start_next_cycle()
