"""An hour of speech as one file: what it takes in memory, and on disk until the reply is complete."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import Served, read_all, serving
from tests.fakes.echo_server import echo_services, running
from tests.fakes.echo_voice import RATE_HZ, SILENCE

from audiocpp.daemon.backend import EXTENSION
from audiocpp.daemon.http.app import create_app
from audiocpp.daemon.http.encoded_file import MEMORY_BYTES

pytestmark = pytest.mark.integration

HOUR_S = 3600
MIB = 1 << 20
CONTROL_MIB = 24
"""What is under way between the processes, and some slack of the allocator. The file has 165 MiB."""
CODEC_MIB = 48


def request(seconds: int, **fields: Any) -> bytes:
    body = json.dumps({"input": f"{seconds} {SILENCE}", **fields}).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


async def speak(server: Served, seconds: int, **fields: Any) -> tuple[bytes, int, bytes, bytes]:
    """Head, length, beginning and end of a reply that is not kept."""
    async with await server.connect() as stream:
        await stream.send_all(request(seconds, **fields))
        received = b""
        while b"\r\n\r\n" not in received:
            received += await stream.receive_some()
        head, _, first = received.partition(b"\r\n\r\n")
        size, last = len(first), first
        async for piece in stream:
            size += len(piece)
            last = (last + piece)[-100:]
            first = (first + piece)[:100]
    return head, size, first[:100], last


@contextmanager
def measured(pid: int | str) -> Iterator[dict[str, float]]:
    """MiB that a process takes at most beyond what it has at the start."""
    folder = Path(f"/proc/{pid}")
    (folder / "clear_refs").write_text("5")  # the peak starts anew
    grown = {"before": _peak_mib(folder)}
    yield grown
    grown["mib"] = _peak_mib(folder) - grown["before"]


def _peak_mib(folder: Path) -> float:
    (line,) = [line for line in (folder / "status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize(("name", "seconds"), [("wav", HOUR_S), ("json", 1200), ("flac", 1200), ("mp3", 600)])
async def test_an_hour_of_speech_takes_little_memory(tmp_path: Path, name: str, seconds: int) -> None:
    services = echo_services(tmp_path)
    async with running(services), serving(create_app(services), write_timeout_s=10) as server:
        await speak(server, 60, response_format=name)
        with measured("self") as control, measured(services.codecs.pid or 0) as codec:
            head, size, first, last = await speak(server, seconds, response_format=name)
        assert b" 200 " in head
        assert f"\r\ncontent-length: {size}\r\n".encode() in head.lower() + b"\r\n"
        wav_bytes = 44 + seconds * RATE_HZ * 2
        if name == "wav":
            assert size == wav_bytes
            assert int.from_bytes(first[4:8], "little") == wav_bytes - 8
            assert int.from_bytes(first[40:44], "little") == wav_bytes - 44
        if name == "json":
            wav = base64.b64decode(first[len('{"audio": "') :][:60])
            assert int.from_bytes(wav[40:44], "little") == wav_bytes - 44
            assert last.endswith(b"}}")
            assert size > wav_bytes * 4 / 3
        assert control["mib"] < CONTROL_MIB
        assert codec["mib"] < CODEC_MIB
        assert list(services.spool_dir.iterdir()) == []


async def test_json_of_a_file_on_disk_is_that_of_the_file(tmp_path: Path) -> None:
    services = echo_services(tmp_path)
    seconds = 2 * MEMORY_BYTES // (2 * RATE_HZ)
    async with running(services), serving(create_app(services)) as server, await server.connect() as stream:
        await stream.send_all(request(seconds, response_format="json"))
        _, _, body = (await read_all(stream)).partition(b"\r\n\r\n")
    answer = json.loads(body)
    assert set(answer) == {"audio", "format", "timing"}
    wav = base64.b64decode(answer["audio"])
    assert len(wav) == 44 + seconds * RATE_HZ * 2
    assert int.from_bytes(wav[4:8], "little") == len(wav) - 8


async def test_speech_beyond_the_disk_that_it_may_take_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    services = echo_services(tmp_path, server={"max_spool_bytes": 8 * MIB})
    app = create_app(services)
    async with running(services), serving(app) as server:
        head, _, first, _ = await speak(server, HOUR_S)
        assert b" 413 " in head
        assert b"the speech may take 8388608 bytes of disk space" in first
        assert (await speak(server, 1))[0].startswith(b"HTTP/1.1 200")
    assert app.extensions[EXTENSION].spool.used_bytes == 0
    assert list(services.spool_dir.iterdir()) == []


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    services = echo_services(tmp_path)
    async with running(services), serving(create_app(services)) as server:
        async with await server.connect() as stream:
            await stream.send_all(request(HOUR_S))
            assert await stream.receive_some(1000)
        with trio.fail_after(5):
            while list(services.spool_dir.iterdir()):
                await trio.sleep(0.01)
