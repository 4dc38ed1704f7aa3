"""The frontend `websocket`: requests in messages, on every path that is no WebSocket route."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import UPGRADE, read_all, serving, websocket
from tests.fakes.services import Script, fake_app
from trio_websocket import ConnectionClosed

from audiocpp.daemon.errors import RunFailed, ServerBusy
from audiocpp.daemon.http.bridge import ENVELOPE_BYTES
from audiocpp.daemon.http.bridge_frames import ReplyFrames
from audiocpp.engines.tasks import AudioChunk

SPEECH = "/v1/audio/speech"
PCM = bytes(range(8))


def speaking() -> Script:
    return Script(events=[AudioChunk(pcm=PCM, sample_rate=22050), AudioChunk(pcm=PCM[::-1], sample_rate=22050)])


class Client:
    def __init__(self, socket: Any) -> None:
        self.socket = socket

    async def send(self, message: Any) -> None:
        await self.socket.send_message(message if isinstance(message, str | bytes) else json.dumps(message))

    async def receive(self) -> Any:
        return json.loads(await self.socket.get_message())

    async def ask(self, message: Any) -> Any:
        """A request whose reply is one message."""
        await self.send(message)
        return await self.receive()

    async def ask_stream(self, message: Any) -> list[Any]:
        await self.send(message)
        replies = [await self.receive()]
        while replies[-1]["type"] in ("response.start", "response.body"):
            replies.append(await self.receive())
        return replies


@asynccontextmanager
async def bridge(
    folder: Path, path: str = SPEECH, *, script: Script | None = None, settings: Any = None, **config: Any
) -> AsyncIterator[Client]:
    app = fake_app(folder, script, **{"frontend_listener": "websocket", **config})
    with trio.fail_after(5):
        async with serving(app) as server, websocket(server, path, **(settings or {})) as socket:
            yield Client(socket)


async def test_an_object_without_envelope_is_the_body(tmp_path: Path) -> None:
    script = speaking()
    async with bridge(tmp_path, script=script) as client:
        reply = await client.ask({"model": "piper", "input": "hello", "response_format": "json"})
    assert (reply["type"], reply["id"], reply["status"]) == ("response", None, 200)
    assert reply["content_type"] == "application/json"
    assert json.loads(reply["body"])["format"] == "wav"
    assert reply["headers"]["x-audiocpp-voice"] == "joe"
    assert not {"content-type", "content-length"} & reply["headers"].keys()
    assert script.run.request.text == "hello"


@pytest.mark.parametrize(
    "body", [{"body_json": {"input": "hello"}}, {"body": '{"input": "hello"}'}, {"body": "{}", "body_json": None}]
)
async def test_an_envelope_brings_its_body_as_text_or_json(tmp_path: Path, body: dict[str, Any]) -> None:
    async with bridge(tmp_path, script=speaking()) as client:
        reply = await client.ask({"id": 7, "method": "post", **body})
    assert (reply["id"], reply["status"]) == (7, 400 if body.get("body") == "{}" else 200)


async def test_a_file_is_base64(tmp_path: Path) -> None:
    async with bridge(tmp_path, script=speaking()) as client:
        reply = await client.ask({"body_json": {"input": "hello"}})
    assert (reply["content_type"], reply["encoding"]) == ("audio/wav", "base64")
    assert base64.b64decode(reply["body"]) == b"WAV" + PCM + PCM[::-1]
    assert float(reply["headers"]["x-audiocpp-rtf"]) == 0.5


async def test_other_methods_and_queries_reach_their_routes(tmp_path: Path) -> None:
    async with bridge(tmp_path, "/v1/models") as client:
        plain = await client.ask({"id": "a", "method": "GET"})
        assert json.loads(plain["body"])["data"][0]["id"] == "moonshine"
        for query in ("include_params=true", "?include_params=true", {"include_params": True}):
            detailed = await client.ask({"method": "GET", "query": query})
            assert "params" in json.loads(detailed["body"])["data"][0]
        assert (await client.ask({"method": "DELETE"}))["status"] == 405
    async with bridge(tmp_path, "/v1/models?include_params=true") as client:
        assert "params" in json.loads((await client.ask({"method": "GET"}))["body"])["data"][0]
        assert "params" not in json.loads((await client.ask({"method": "GET", "query": ""}))["body"])["data"][0]


async def test_a_path_that_does_not_exist_is_answered_with_its_status(tmp_path: Path) -> None:
    async with bridge(tmp_path, "/nope/at/all") as client:
        reply = await client.ask({"method": "GET", "id": 1})
    assert (reply["status"], json.loads(reply["body"])["error"]["type"]) == (404, "not_found")


async def test_a_stream_of_events_comes_in_pieces(tmp_path: Path) -> None:
    async with bridge(tmp_path, script=speaking()) as client:
        start, *bodies, done = await client.ask_stream({"id": "s", "body_json": {"input": "hello", "stream": True}})
    assert (start["type"], start["id"], start["status"]) == ("response.start", "s", 200)
    assert start["content_type"].startswith("text/event-stream")
    assert "body" not in start
    assert {(body["type"], body["id"]) for body in bodies} == {("response.body", "s")}
    assert done == {"type": "response.done", "id": "s"}
    text = "".join(body["body"] for body in bodies)
    assert text.endswith("data: [DONE]\n\n")
    assert text.count("speech.audio.delta") == 2


async def test_a_raw_stream_comes_in_base64(tmp_path: Path) -> None:
    async with bridge(tmp_path, script=speaking()) as client:
        _, *bodies, _ = await client.ask_stream({"body_json": {"input": "hello", "stream_format": "audio"}})
    assert b"".join(base64.b64decode(body["body"]) for body in bodies) == PCM + PCM[::-1]


async def test_a_stream_that_breaks_off_ends_with_an_error(tmp_path: Path) -> None:
    script = Script(events=speaking().events, fails=RunFailed("the graph failed"))
    async with bridge(tmp_path, script=script) as client:
        body = {"input": "hello", "stream_format": "audio"}
        *_, last = await client.ask_stream({"id": "r", "body_json": body})
        assert (last["type"], last["id"], last["error"]["type"]) == ("error", "r", "server_error")
        *_, last = await client.ask_stream({"body_json": {"input": "hello", "stream": True}})
        assert last["type"] == "response.done"  # the error is an event of the stream


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        (b"\0\1", None),
        ("", None),
        ("{", None),
        ("[]", None),
        ('"text"', None),
        ('{"a": 1, "a": 2}', None),
        ({"id": 1, "method": "GET", "path": "/health"}, 1),
        ({"id": 2, "method": 5}, 2),
        ({"id": 3, "method": "GET /"}, 3),
        ({"id": 4, "query": ["a"]}, 4),
        ({"id": 5, "query": {"a": []}}, 5),
        ({"id": 6, "headers": []}, 6),
        ({"id": 7, "headers": {"x": 5}}, 7),
        ({"id": 8, "headers": {"x": "a\r\nb: c"}}, 8),
        ({"id": 9, "headers": {"Host": "evil.example"}}, 9),
        ({"id": 10, "headers": {"Transfer-Encoding": "chunked"}}, 10),
        ({"id": 11, "body": {}}, 11),
        ({"id": 12, "body": "{}", "body_json": {}}, 12),
    ],
)
async def test_what_is_no_request_is_told_and_the_socket_serves_on(
    tmp_path: Path, message: Any, request_id: Any
) -> None:
    async with bridge(tmp_path, "/health") as client:
        reply = await client.ask(message)
        assert (reply["type"], reply["id"]) == ("error", request_id)
        assert reply["error"]["type"] == "invalid_request_error"
        assert reply["error"]["message"]
        assert (await client.ask({"method": "GET"}))["status"] == 200


async def test_a_body_may_have_a_path_of_its_own(tmp_path: Path) -> None:
    async with bridge(tmp_path, "/v1/audio/transcriptions") as client:
        reply = await client.ask({"id": "x", "path": "/speech.wav"})
    assert (reply["type"], reply["id"], reply["status"]) == ("response", None, 400)


async def test_errors_are_replies(tmp_path: Path) -> None:
    async with bridge(tmp_path, script=Script(refuses=ServerBusy("all slots are taken"))) as client:
        reply = await client.ask({"input": "hello"})
        assert (reply["status"], reply["headers"]["retry-after"]) == (503, "1")
        assert (await client.ask({"input": ""}))["status"] == 400


async def test_a_body_above_the_limit_is_413_in_a_message_and_over_http(tmp_path: Path) -> None:
    limit = {"max_request_body_bytes": 100}
    async with bridge(tmp_path, **limit) as client:
        for length in (200, ENVELOPE_BYTES + 200, 1 << 20):
            reply = await client.ask({"id": 1, "body": "x" * length})
            assert (reply["type"], reply["status"]) == ("response", 413)
            assert json.loads(reply["body"])["error"]["type"] == "request_too_large"
        assert (await client.ask({"input": ""}))["status"] == 400
    for listener, kind in (("websocket", "request_too_large"), ("", "invalid_request_error")):
        client = fake_app(tmp_path, frontend_listener=listener, **limit).test_client()
        reply = await client.post(SPEECH, data=bytes(200))
        assert (reply.status_code, (await reply.get_json())["error"]["type"]) == (413, kind)


async def test_requests_run_one_after_the_other(tmp_path: Path) -> None:
    async with bridge(tmp_path, "/health") as client:
        for number in range(5):
            await client.send({"id": number, "method": "GET"})
        assert [(await client.receive())["id"] for _ in range(5)] == list(range(5))


async def test_a_client_that_leaves_cancels_its_request(tmp_path: Path) -> None:
    script = Script(hangs=True)
    async with bridge(tmp_path, script=script) as client:
        await client.send({"input": "hello"})
        await script.opened.wait()
        assert not script.run.left.is_set()
        await client.socket.aclose()
        await script.run.left.wait()


async def test_the_key_of_the_handshake_is_that_of_its_requests(tmp_path: Path) -> None:
    config = {"api_keys": ["secret"]}
    ways: list[tuple[str, Any]] = [
        ("?api_key=secret", {}),
        ("", {"extra_headers": [(b"Authorization", b"Bearer secret")]}),
        ("", {"subprotocols": ["realtime", "openai-insecure-api-key.secret"]}),
    ]
    for query, settings in ways:
        async with bridge(tmp_path, f"/v1/models{query}", settings=settings, **config) as client:
            assert (await client.ask({"method": "GET"}))["status"] == 200
            wrong = {"method": "GET", "headers": {"Authorization": "Bearer nope"}}
            assert (await client.ask(wrong))["status"] == 401


@pytest.mark.parametrize(
    ("line", "status"),
    [(b"Origin: https://evil.example\r\n", b"403"), (b"Authorization: Bearer nope\r\n", b"401"), (b"", b"401")],
)
async def test_a_handshake_that_may_not_be_is_refused(tmp_path: Path, line: bytes, status: bytes) -> None:
    app = fake_app(tmp_path, frontend_listener="websocket", api_keys=["secret"])
    with trio.fail_after(5):
        async with serving(app) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE.replace(b"/ws", b"/v1/models")[:-2] + line + b"\r\n")
            assert (await read_all(stream)).split()[1] == status


async def test_the_live_route_is_what_it_always_is(tmp_path: Path) -> None:
    async with bridge(tmp_path, "/v1/audio/transcriptions/live?model=moonshine-live") as client:
        assert (await client.receive())["type"] == "session.created"
        reply = await client.ask({"method": "GET"})
        assert reply["type"] == "error"


async def test_http_is_served_beside_it(tmp_path: Path) -> None:
    client = fake_app(tmp_path, frontend_listener="websocket").test_client()
    for method, path, status in (("GET", "/health", 200), ("GET", "/nope", 404), ("GET", SPEECH, 405)):
        with trio.fail_after(5):
            assert (await client.open(path, method=method)).status_code == status


async def test_without_the_frontend_an_upgrade_is_refused(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server, await server.connect() as stream:
            await stream.send_all(UPGRADE.replace(b"/ws", b"/v1/models"))
            assert (await read_all(stream)).startswith(b"HTTP/1.1 400")


async def test_a_daemon_that_stops_closes_after_the_reply(tmp_path: Path) -> None:
    app = fake_app(tmp_path, frontend_listener="websocket")
    with trio.fail_after(5):
        async with serving(app, drain_s=4) as server, websocket(server, "/health") as socket:
            client = Client(socket)
            assert (await client.ask({"method": "GET"}))["status"] == 200
            server.stop.set()
            with pytest.raises(ConnectionClosed) as closed:
                await client.receive()
            assert closed.value.reason.code == 1012
            await server.stopped.wait()


async def test_pings_go_out_while_a_request_runs(tmp_path: Path) -> None:
    script = Script(hangs=True)
    async with bridge(tmp_path, script=script) as client:
        await client.send({"input": "hello"})
        await script.opened.wait()
        await client.socket.ping()


async def test_a_character_may_be_split_between_pieces() -> None:
    frames = ReplyFrames(None, 200, [(b"Content-Type", b"text/plain; charset=utf-8")])
    data = "für Jörg".encode()
    pieces = [frames.piece(data[at : at + 1], last=at == len(data) - 1) for at in range(len(data))]
    assert "".join(json.loads(piece)["body"] for piece in pieces if piece) == "für Jörg"
    assert None in pieces
