"""The public app under the accept loop: what only shows with a connection that can be broken."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import UPGRADE, Served, read_all, read_until, serving, websocket
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.errors import ModelFailed, RunFailed
from audiocpp.daemon.http.connection import BODY_BUFFER_BYTES, RequestBody
from audiocpp.engines.tasks import AudioChunk

SPEECH = {"model": "piper", "input": "hello"}
CHUNK = AudioChunk(pcm=bytes(400), sample_rate=22050)


def post(path: str, body: dict[str, Any], *, more: str = "") -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n{more}\r\n"
    return head.encode() + data


@pytest.mark.parametrize(
    "extra", [{}, {"stream": True}, {"stream_format": "audio"}], ids=["buffered", "events", "audio"]
)
async def test_a_client_that_leaves_cancels_the_run_and_the_next_request_works(
    tmp_path: Path, extra: dict[str, Any]
) -> None:
    script = Script(hangs=True, events=[CHUNK])
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server:
            async with await server.connect() as stream:
                await stream.send_all(post("/v1/audio/speech", {**SPEECH, **extra}))
                await script.opened.wait()
            with trio.fail_after(1):
                await script.run.left.wait()
            assert not script.run.completed
            assert b"200" in await server.get("/health")


async def test_a_raw_stream_that_fails_has_no_last_chunk(tmp_path: Path) -> None:
    script = Script(events=[CHUNK], fails=RunFailed("the graph failed"))
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server, await server.connect() as stream:
            await stream.send_all(post("/v1/audio/speech", {**SPEECH, "stream_format": "audio"}))
            received = await read_all(stream)
    assert received.startswith(b"HTTP/1.1 200")
    assert not received.endswith(b"0\r\n\r\n")


async def test_a_stream_of_events_ends_with_its_last_chunk(tmp_path: Path) -> None:
    script = Script(events=[CHUNK])
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server, await server.connect() as stream:
            await stream.send_all(post("/v1/audio/speech", {**SPEECH, "stream": True}))
            received = await read_until(stream, b"0\r\n\r\n")
    assert b"data: [DONE]\n\n" in received


async def test_a_buffered_reply_has_its_length(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, Script(events=[CHUNK]))) as server, await server.connect() as stream:
            await stream.send_all(post("/v1/audio/speech", SPEECH))
            received = await read_until(stream, b"\r\n\r\n")
    assert b"content-length: 403\r\n" in received.lower()
    assert b"transfer-encoding" not in received.lower()


async def test_three_gigabytes_are_refused_at_once(tmp_path: Path) -> None:
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000000\r\n\r\n"
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server, await server.connect() as stream:
            await stream.send_all(head)
            assert (await read_until(stream, b'"body_too_large"')).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("pieces", [1, 2], ids=["at once", "headers first"])
async def test_a_connection_survives_a_request_that_was_refused_unread(tmp_path: Path, pieces: int) -> None:
    refused = post("/nope", SPEECH)
    head = refused.index(b"\r\n\r\n") + 4
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server, await server.connect() as stream:
            for _ in range(20):
                for piece in [refused] if pieces == 1 else [refused[:head], refused[head:]]:
                    await stream.send_all(piece)
                    await trio.lowlevel.checkpoint()
                received = await read_until(stream, b'"param"')
                assert b"connection: close" not in received.lower()


async def test_a_reply_before_the_end_of_a_long_body_says_that_the_connection_ends(tmp_path: Path) -> None:
    head = b"POST /nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server, await server.connect() as stream:
            await stream.send_all(head + b"x")
            received = await read_all(stream)
    assert received.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert b"\r\nconnection: close\r\n" in received.lower()


async def test_100_continue_is_answered(tmp_path: Path) -> None:
    request = post("/v1/audio/speech", SPEECH, more="Expect: 100-continue\r\n")
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, Script(events=[CHUNK]))) as server, await server.connect() as stream:
            await stream.send_all(request.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            await read_until(stream, b"HTTP/1.1 100")
            await stream.send_all(json.dumps(SPEECH).encode())
            await read_until(stream, b"HTTP/1.1 200")


async def test_head_has_no_body(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server, await server.connect() as stream:
            await stream.send_all(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (await read_all(stream)).endswith(b"\r\n\r\n")


async def test_a_body_waits_until_the_route_takes_it() -> None:
    body = RequestBody(None, None)
    with trio.fail_after(3):
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(0.05) as waited:
                await body.put(bytes(BODY_BUFFER_BYTES))
            assert waited.cancelled_caught
            nursery.start_soon(body.put, b"more")
            assert len(await anext(body)) >= BODY_BUFFER_BYTES


@dataclass
class Refusal:
    status: int
    headers: bytes
    error: dict[str, Any]


async def upgrade(server: Served, query: str, *, more: bytes = b"") -> Refusal:
    """Asks for a live session that is to be refused."""
    request = UPGRADE.replace(b"/ws", b"/v1/audio/transcriptions/live" + query.encode())[:-2] + more + b"\r\n"
    async with await server.connect() as stream:
        await stream.send_all(request)
        head, _, body = (await read_all(stream)).partition(b"\r\n\r\n")
    return Refusal(int(head.split()[1]), head.lower(), json.loads(body)["error"])


@pytest.mark.parametrize(
    ("query", "status", "param"),
    [
        ("?model=nope", 404, "model"),
        ("?model=moonshine", 400, "model"),
        ("?model=piper", 400, "model"),
        ("?sample_rate=900", 400, "sample_rate"),
        ("?sample_rate=16k", 400, "sample_rate"),
        ("?channels=17", 400, "channels"),
        ("?sample_format=s24le", 400, "sample_format"),
        ("?partials=maybe", 400, "partials"),
        ("?vad=perhaps", 400, "vad"),
        ("?endpoint_silence_ms=1", 400, "endpoint_silence_ms"),
        ("?busy_timeout_ms=-1", 400, "busy_timeout_ms"),
        ("?language=tlh", 400, "language"),
        ("?session_id=abc", 404, "session_id"),
    ],
)
async def test_a_bad_live_parameter_is_a_reply_to_the_upgrade(
    tmp_path: Path, query: str, status: int, param: str
) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server:
            refused = await upgrade(server, query)
    assert (refused.status, refused.error["param"]) == (status, param)


async def test_an_upgrade_of_another_route_is_told_that_it_takes_none(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE.replace(b"/ws", b"/health"))
            received = await read_all(stream)
    assert received.startswith(b"HTTP/1.1 400")
    assert b"/health is not a WebSocket" in received


async def test_a_model_that_does_not_load_refuses_the_upgrade(tmp_path: Path) -> None:
    script = Script(refuses=ModelFailed("out of order", retry_after_s=7))
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, script)) as server:
            refused = await upgrade(server, "")
    assert refused.status == 503
    assert b"\r\nretry-after: 7\r\n" in refused.headers


async def test_a_foreign_origin_cannot_open_a_live_session(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server:
            refused = await upgrade(server, "", more=b"Origin: https://evil.example\r\n")
    assert refused.status == 403


async def test_a_wrong_key_is_refused_at_the_handshake(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, api_keys=["secret"])) as server:
            assert (await upgrade(server, "?api_key=nope")).status == 401
            assert (await upgrade(server, "")).status == 401


@pytest.mark.parametrize(
    ("query", "settings"),
    [
        ("?api_key=secret", {}),
        ("", {"extra_headers": [(b"Authorization", b"Bearer secret")]}),
        ("", {"subprotocols": ["realtime", "openai-insecure-api-key.secret"]}),
    ],
    ids=["query", "header", "subprotocol"],
)
async def test_a_key_may_come_in_three_ways(tmp_path: Path, query: str, settings: Any) -> None:
    path = f"/v1/audio/transcriptions/live{query}"
    with trio.fail_after(5):
        async with (
            serving(fake_app(tmp_path, api_keys=["secret"])) as server,
            websocket(server, path, **settings) as client,
        ):
            assert json.loads(await client.get_message())["type"] == "session.created"
