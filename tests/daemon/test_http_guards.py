"""Cross-origin requests on the wire: which header lines there are, on what, and on what there are none."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.asgi import UPGRADE, read_all, read_until, serving
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.errors import RunFailed, ServerBusy
from audiocpp.engines.tasks import AudioChunk

APP = "https://app.example"
EVIL = "https://evil.example"
SPEAK = b'{"model": "piper", "input": "hello"}'


class Reply:
    def __init__(self, received: bytes) -> None:
        head, _, self.body = received.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def cors(self) -> dict[str, str]:
        return {name: value for name, value in self.headers.items() if name.startswith("access-control-")}


async def ask(
    folder: Path,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    script: Script | None = None,
    **config: Any,
) -> Reply:
    """A request over a socket, with `Host: localhost` unless `headers` say otherwise."""
    lines = {"Host": "localhost", "Connection": "close", "Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with trio.fail_after(5):
        async with serving(fake_app(folder, script, **config)) as server, await server.connect() as stream:
            await stream.send_all(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
            return Reply(await read_all(stream))


def speaking() -> Script:
    return Script(events=[AudioChunk(pcm=bytes(8), sample_rate=22050)])


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/health", "/v1/models/x/y", "/nope", "/v1/audio/speech/", "/"])
@pytest.mark.parametrize("origins", ["*", [APP]], ids=["any", "listed"])
async def test_a_preflight_is_answered_on_every_path(tmp_path: Path, path: str, origins: Any) -> None:
    asked = {
        "Origin": APP,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, authorization",
    }
    reply = await ask(tmp_path, "OPTIONS", path, headers=asked, cors_origins=origins)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["content-type"] == "text/plain"
    assert reply.cors["access-control-allow-origin"] == APP
    assert reply.cors["access-control-allow-headers"] == "*"
    assert reply.cors["access-control-allow-methods"] == "GET, POST"
    assert "access-control-allow-credentials" not in reply.cors


async def test_a_preflight_needs_no_key_and_allows_one(tmp_path: Path) -> None:
    reply = await ask(tmp_path, "OPTIONS", "/v1/models", headers={"Origin": APP}, cors_origins="*", api_keys=["secret"])
    assert (reply.status, reply.cors["access-control-allow-headers"]) == (204, "*, Authorization")


@pytest.mark.parametrize("origins", ["", "*", [APP]], ids=["off", "any", "listed"])
async def test_options_without_an_origin_is_answered_while_there_is_a_page(tmp_path: Path, origins: Any) -> None:
    reply = await ask(tmp_path, "OPTIONS", "/nope", cors_origins=origins)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.cors == {"access-control-allow-headers": "*", "access-control-allow-methods": "GET, POST"}


@pytest.mark.parametrize(("path", "status"), [("/v1/audio/speech", 405), ("/health", 405), ("/nope", 404)])
async def test_options_is_no_method_where_no_page_may_ask(tmp_path: Path, path: str, status: int) -> None:
    reply = await ask(tmp_path, "OPTIONS", path, cors_origins="", ui=False)
    assert (reply.status, reply.cors) == (status, {})
    assert "OPTIONS" not in reply.headers.get("allow", "")


async def test_options_of_an_allowed_origin_is_answered_without_a_page(tmp_path: Path) -> None:
    reply = await ask(tmp_path, "OPTIONS", "/v1/models", headers={"Origin": APP}, cors_origins=[APP], ui=False)
    assert (reply.status, reply.cors["access-control-allow-origin"]) == (204, APP)


@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST"])
@pytest.mark.parametrize("origins", ["", [APP]], ids=["off", "listed"])
async def test_another_site_is_refused_before_anything_else(tmp_path: Path, method: str, origins: Any) -> None:
    script = speaking()
    asked = {"Origin": EVIL, "Access-Control-Request-Method": "POST"}
    reply = await ask(
        tmp_path, method, "/v1/audio/speech", headers=asked, body=SPEAK, script=script, cors_origins=origins
    )
    assert (reply.status, reply.cors, script.runs) == (403, {}, [])
    assert json.loads(reply.body)["error"]["type"] == "forbidden"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (APP, 200),
        ("HTTPS://APP.EXAMPLE", 200),
        ("http://app.example", 403),
        ("https://app.example:8443", 403),
        ("https://app.example.evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_an_origin_is_compared_with_scheme_and_port(tmp_path: Path, origin: str, status: int) -> None:
    reply = await ask(tmp_path, "GET", "/health", headers={"Origin": origin}, cors_origins=[APP])
    assert reply.status == status


@pytest.mark.parametrize("origin", [APP, EVIL, "null"])
async def test_any_origin_is_echoed_where_all_are_let_in(tmp_path: Path, origin: str) -> None:
    reply = await ask(tmp_path, "GET", "/health", headers={"Origin": origin}, cors_origins="*")
    assert (reply.status, reply.cors["access-control-allow-origin"]) == (200, origin)
    assert reply.headers["vary"] == "Origin"


async def test_without_an_origin_there_is_no_header_of_it(tmp_path: Path) -> None:
    reply = await ask(tmp_path, "GET", "/health", cors_origins="*")
    assert (reply.status, reply.cors) == (200, {})


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:8080", "http://localhost:8080", 200),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", 200),
        ("[::1]:8080", "http://[::1]:8080", 200),
        ("localhost:8080", "https://localhost:8080", 200),
        ("localhost:8080", "http://localhost:3000", 403),
        ("localhost:8080", "http://127.0.0.1:8080", 403),
        ("localhost:8080", "http://localhost", 403),
    ],
)
async def test_the_servers_own_page_needs_no_permission(tmp_path: Path, host: str, origin: str, status: int) -> None:
    reply = await ask(tmp_path, "GET", "/health", headers={"Host": host, "Origin": origin})
    assert (reply.status, reply.cors) == (status, {})


ERRORS: dict[int, dict[str, Any]] = {
    400: {"body": b"{"},
    401: {"body": SPEAK, "api_keys": ["secret"]},
    404: {"body": b'{"model": "nobody", "input": "hello"}'},
    405: {"method": "GET"},
    413: {"body": SPEAK, "max_request_body_bytes": 5},
    500: {"body": SPEAK, "script": Script(fails=RunFailed("the graph failed"))},
    503: {"body": SPEAK, "script": Script(refuses=ServerBusy("all slots are taken"))},
}


@pytest.mark.parametrize("status", ERRORS)
async def test_errors_can_be_read_across_origins(tmp_path: Path, status: int) -> None:
    asked = {"method": "POST", "path": "/v1/audio/speech", "headers": {"Origin": APP}, "cors_origins": "*"}
    reply = await ask(tmp_path, **{**asked, **ERRORS[status]})
    assert (reply.status, reply.cors["access-control-allow-origin"]) == (status, APP)
    assert json.loads(reply.body)["error"]["message"]


async def test_a_refused_host_is_told_across_origins_too(tmp_path: Path) -> None:
    reply = await ask(tmp_path, "GET", "/health", headers={"Host": "evil.example", "Origin": APP}, cors_origins="*")
    assert (reply.status, reply.cors["access-control-allow-origin"]) == (403, APP)


async def test_what_is_no_http_is_answered_before_there_is_an_origin(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, cors_origins="*")) as server, await server.connect() as stream:
            await stream.send_all(b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n")
            reply = Reply(await read_all(stream))
    assert (reply.status, reply.cors) == (400, {})


@pytest.mark.parametrize("stream", [b"", b', "stream": true', b', "stream_format": "audio"'])
async def test_replies_of_every_kind_can_be_read_with_their_headers(tmp_path: Path, stream: bytes) -> None:
    body = SPEAK[:-1] + stream + b"}"
    reply = await ask(
        tmp_path,
        "POST",
        "/v1/audio/speech",
        headers={"Origin": APP, "X-Request-Id": "one"},
        body=body,
        script=speaking(),
        cors_origins=[APP],
    )
    assert (reply.status, reply.cors["access-control-allow-origin"]) == (200, APP)
    exposed = {name.strip().lower() for name in reply.cors["access-control-expose-headers"].split(",")}
    ours = {name for name in reply.headers if name.startswith("x-audiocpp-") or name == "x-request-id"}
    assert "x-audiocpp-voice" in ours
    assert ours <= exposed


@pytest.mark.parametrize(
    ("origin", "origins", "status"),
    [(EVIL, "", 403), (EVIL, [APP], 403), (APP, [APP], 101), (EVIL, "*", 101), ("http://localhost", "", 101)],
)
async def test_a_websocket_is_opened_by_the_same_rules(tmp_path: Path, origin: str, origins: Any, status: int) -> None:
    request = UPGRADE.replace(b"/ws", b"/v1/audio/transcriptions/live")[:-2] + f"Origin: {origin}\r\n\r\n".encode()
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path, cors_origins=origins)) as server, await server.connect() as stream:
            await stream.send_all(request)
            assert Reply(await read_until(stream, b"\r\n\r\n")).status == status
