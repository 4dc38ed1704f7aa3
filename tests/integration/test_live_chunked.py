"""The chunked upload that is answered while it comes, on a real model: ordinary clients, and a socket."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from tests.integration.daemon_process import DaemonProcess
from tests.integration.live_client import LIMIT_S, pcm_of
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors

pytestmark = pytest.mark.integration

PATH = "/v1/audio/transcriptions/live?model=moonshine-live"
CHUNK_BYTES = 3201
"""An odd number: every second chunk begins inside a sample."""


@pytest.fixture(scope="module")
def pcm(audio_files: dict[str, Path]) -> bytes:
    return pcm_of(audio_files["beckett.wav"])


def pieces(pcm: bytes) -> Iterator[bytes]:
    for start in range(0, len(pcm), CHUNK_BYTES):
        yield pcm[start : start + CHUNK_BYTES]


def events_of(stream: str) -> list[dict[str, Any]]:
    """The events of a complete stream."""
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]", lines[-1]
    return [json.loads(line) for line in lines[:-1]]


def check(events: list[dict[str, Any]]) -> None:
    assert events[0]["type"] == "session.created"
    done = events[-1]
    assert done["type"] == "transcript.text.done"
    assert "".join(event["delta"] for event in events if event["type"] == "transcript.text.delta") == done["text"]
    assert word_errors(passage("beckett"), done["text"]) <= MAX_WORD_ERRORS


def test_an_ordinary_client_streams_its_upload(daemon: DaemonProcess, pcm: bytes) -> None:
    with daemon.client() as client:
        answer = client.post(PATH, content=pieces(pcm))
    assert answer.status_code == 200
    check(events_of(answer.text))


def test_curl_streams_its_standard_input(daemon: DaemonProcess, pcm: bytes) -> None:
    assert shutil.which("curl"), "curl is among the programs that tests need"
    command = ["curl", "-sSN", "-X", "POST", "-T", "-", f"{daemon.url}{PATH}"]
    done = subprocess.run(command, input=pcm, capture_output=True, timeout=LIMIT_S, check=True)
    check(events_of(done.stdout.decode()))


async def test_words_come_back_while_the_upload_goes_on(daemon: DaemonProcess, pcm: bytes) -> None:
    address = urlsplit(daemon.url)
    received = b""
    with trio.fail_after(LIMIT_S):
        async with await trio.open_tcp_stream(str(address.hostname), address.port or 0) as stream:
            head = f"POST {PATH} HTTP/1.1\r\nHost: {address.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n"
            await stream.send_all(head.encode())
            for piece in pieces(pcm):
                await stream.send_all(b"%x;ext=1\r\n%s\r\n" % (len(piece), piece))
            while b"transcript.text.delta" not in received:
                received += await stream.receive_some()
            await stream.send_all(b"0\r\nX-Trailer: 1\r\n\r\n")
            async for data in stream:
                received += data
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    check(events_of(body.decode()))
