"""The document of the API against the app that it describes, and against what the app answers."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from quart_trio import QuartTrio
from tests.fakes.asgi import serving, websocket
from tests.fakes.services import Script, fake_app

from audiocpp.daemon import errors
from audiocpp.daemon.errors import DaemonError, RunFailed
from audiocpp.daemon.http.openapi.document import build_document, methods_of
from audiocpp.daemon.http.openapi.page import render_page
from audiocpp.daemon.http.openapi.routes import ROUTES
from audiocpp.daemon.http.paths import rule_path
from audiocpp.daemon.http.speech_request import SpeechBody
from audiocpp.engines.tasks import AudioChunk, Segment, TextDelta, Word

Json = dict[str, Any]

CHUNK = AudioChunk(pcm=bytes(400), sample_rate=22050)
WORDS = (Word(word="Hello", start=0.0, end=0.5, confidence=0.9),)
HEARD = (TextDelta("Hello"), Segment(index=0, start=0.0, end=1.0, text="Hello", words=WORDS))
RECORDING = base64.b64encode(b"FAKE" + bytes(16)).decode()


@pytest.fixture
def described(tmp_path: Path) -> Callable[..., tuple[QuartTrio, Json]]:
    """An app of scripted runs, and its document. Needs an event loop."""

    def make(script: Script | None = None) -> tuple[QuartTrio, Json]:
        app = fake_app(tmp_path, script)
        return app, build_document(app, version="1.0")

    return make


Described = Callable[..., tuple[QuartTrio, Json]]


async def ask(app: QuartTrio, method: str, path: str, **more: Any) -> Any:
    with trio.fail_after(5):
        response = await app.test_client().open(path, method=method, **more)
        await response.get_data()
        return response


def check(document: Json, schema: Json, value: object) -> None:
    """Raises `ValidationError` when `value` is not what `schema`, a part of the document, describes."""
    Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def refuses(document: Json, schema: Json, value: object) -> bool:
    return not Draft202012Validator({**schema, "components": document["components"]}).is_valid(value)


def reply_schema(document: Json, method: str, path: str, status: int, media_type: str) -> Json:
    schema = document["paths"][path][method.lower()]["responses"][str(status)]["content"][media_type]["schema"]
    assert isinstance(schema, dict)
    return schema


async def test_every_route_of_the_app_is_described_and_no_other(described: Described) -> None:
    app, document = described()
    of_app = {(method, rule_path(rule)) for rule in app.url_map.iter_rules() for method in methods_of(rule)}
    assert set(ROUTES) == of_app
    shown = {("GET" if method == "WEBSOCKET" else method, path) for method, path in of_app}
    assert {(method.upper(), path) for path, says in document["paths"].items() for method in says} == shown


async def test_the_document_is_valid_openapi(described: Described) -> None:
    _, document = described()
    assert document["openapi"] == "3.1.0"
    validate(document)


async def test_ids_are_unique_and_every_operation_says_what_it_does(described: Described) -> None:
    _, document = described()
    operations = [says for path in document["paths"].values() for says in path.values()]
    ids = [says["operationId"] for says in operations]
    assert sorted(set(ids)) == sorted(ids)
    assert [says["operationId"] for says in operations if not says["summary"]] == []


async def test_request_bodies_are_those_that_validate(described: Described) -> None:
    _, document = described()
    body = document["components"]["schemas"]["SpeechBody"]
    assert set(body["properties"]) == set(SpeechBody.__struct_fields__)
    assert body["required"] == ["input"]
    schema = {"$ref": "#/components/schemas/SpeechBody"}
    for good in ({"input": "a"}, {"input": "a", "stream": "true", "seed": None, "unknown": 1}):
        check(document, schema, good)
        msgspec.convert(good, SpeechBody)
    for bad in ({}, {"input": 1}, {"input": "a", "busy_timeout_ms": -1}, {"input": "a", "options": []}):
        assert refuses(document, schema, bad), bad
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(bad, SpeechBody)


async def test_an_error_is_what_the_document_says(described: Described) -> None:
    app, document = described()
    for method, path, status in [
        ("GET", "/v1/models/nope", 404),
        ("POST", "/v1/audio/speech", 400),
    ]:
        response = await ask(app, method, path)
        assert response.status_code == status
        shown = "/v1/models/{model_id}" if "nope" in path else path
        check(document, reply_schema(document, method, shown, status, "application/json"), await response.get_json())


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/health", None),
        ("GET", "/v1/devices", None),
        ("GET", "/v1/models", None),
        ("GET", "/v1/models?include_params=true&include_session_options=1", None),
        ("GET", "/v1/models/{model_id}", None),
        ("GET", "/v1/audio/voices", None),
        ("POST", "/v1/tasks/unload_models", {"model_ids": ["vad", "nope"]}),
        ("POST", "/v1/tasks/unload_all_models", {}),
        ("POST", "/v1/audio/speech", {"input": "Hello.", "response_format": "json"}),
        ("POST", "/v1/tasks/run", {"model": "piper", "request": {"text": "Hello."}}),
        ("POST", "/v1/tasks/stream", {"model": "piper", "request": {"text": "Hello."}}),
        ("GET", "/openapi.json", None),
    ],
)
async def test_replies_are_as_described(described: Described, method: str, path: str, body: Json | None) -> None:
    app, document = described(Script(events=[CHUNK]))
    data = None if body is None else json.dumps(body)
    response = await ask(app, method, path.replace("{model_id}", "vad"), data=data)
    assert response.status_code == 200
    schema = reply_schema(document, method, path.partition("?")[0], 200, "application/json")
    check(document, schema, await response.get_json())


@pytest.mark.parametrize(
    ("path", "response_format"),
    [
        ("/v1/audio/transcriptions", "json"),
        ("/v1/audio/transcriptions", "verbose_json"),
        ("/v1/audio/transcriptions/details", "json"),
        ("/v1/tasks/run", "json"),
    ],
)
async def test_transcripts_are_as_described(
    described: Described, tmp_path: Path, path: str, response_format: str
) -> None:
    app, document = described(Script(events=HEARD))
    recording = tmp_path / "recording"
    recording.write_bytes(b"FAKE" + bytes(16))
    fields = {"model": "moonshine", "audio": str(recording), "response_format": response_format}
    response = await ask(app, "POST", path, data=json.dumps(fields))
    assert response.status_code == 200
    check(document, reply_schema(document, "POST", path, 200, "application/json"), await response.get_json())


def events_of(text: str) -> list[Json]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def streams(recording: Path) -> dict[str, Any]:
    """Path -> a request whose answer is a stream of events."""
    audio = {"audio": str(recording)}
    return {
        "/v1/audio/speech": {"input": "Hello.", "stream": True},
        "/v1/audio/transcriptions": {**audio, "stream": True},
        "/v1/tasks/stream": {"model": "moonshine", "stream_format": "sse", **audio},
        "/v1/tasks/batch": {"model": "moonshine", "requests": [audio, audio]},
    }


PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="%d"\r\n\r\nFAKEabcd\r\n'
FORM = PART % 1 + PART % 2 + b"--b--\r\n"


@pytest.mark.parametrize("fails", [None, RunFailed("the graph failed")])
@pytest.mark.parametrize("path", [*streams(Path()), "/v1/batches/transcriptions"])
async def test_events_are_as_described(
    described: Described, tmp_path: Path, path: str, fails: DaemonError | None
) -> None:
    app, document = described(Script(events=[CHUNK] if "speech" in path else HEARD, fails=fails))
    recording = tmp_path / "recording"
    recording.write_bytes(b"FAKE" + bytes(16))
    if path in (requests := streams(recording)):
        response = await ask(app, "POST", path, data=json.dumps(requests[path]))
    else:
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        response = await ask(app, "POST", path, data=FORM, headers=headers)
    assert response.content_type.startswith("text/event-stream"), await response.get_data()
    stream = document["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"]
    events = events_of(await response.get_data(as_text=True))
    assert (events[-1]["type"] == "error") == (fails is not None)
    for event in events:
        check(document, {"oneOf": stream["x-events"]}, event)
    assert refuses(document, {"oneOf": stream["x-events"]}, {"type": "something.else"})


async def test_messages_of_a_live_session_are_as_described(described: Described) -> None:
    app, document = described(Script(events=HEARD))
    socket_says = document["paths"]["/v1/audio/transcriptions/live"]["get"]["x-websocket"]
    for message in ({"type": "finalize", "id": "a"}, {"type": "finalize"}, {"type": "end"}, {"type": "keepalive"}):
        check(document, {"oneOf": socket_says["send"]}, message)
    seen = []
    with trio.fail_after(5):
        async with (
            serving(app, drain_s=2.0, ping_interval_s=1.0) as server,
            websocket(server, "/v1/audio/transcriptions/live?partials=1") as socket,
        ):
            for message in ({"type": "nonsense"}, {"type": "finalize"}, {"type": "end"}):
                await socket.send_message(json.dumps(message))
            while not seen or seen[-1]["type"] != "transcript.text.done":
                seen.append(json.loads(await socket.get_message()))
    for event in seen:
        check(document, {"oneOf": socket_says["receive"]}, event)
    assert {"session.created", "error", "transcript.finalized", "transcript.segment"} <= {
        event["type"] for event in seen
    }


async def test_every_code_of_an_error_is_described_where_it_can_occur(described: Described) -> None:
    _, document = described()
    text = json.dumps(document["paths"])
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DaemonError)]
    missing = {kind.code for kind in kinds if f"`{kind.code}`" not in text}
    # The first two are not of a route; the third is no route's yet.
    assert missing == {"internal_error", "method_not_allowed", "conflict"}


async def test_both_are_served_without_a_key(tmp_path: Path) -> None:
    app = fake_app(tmp_path, api_keys=["secret"])
    document = await ask(app, "GET", "/openapi.json")
    assert document.content_type == "application/json"
    assert (await document.get_json())["info"]["title"] == "audiocpp"
    page = await ask(app, "GET", "/docs")
    assert page.content_type.startswith("text/html")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")


async def test_the_page_shows_every_route_and_type_and_needs_nothing_else(described: Described) -> None:
    _, document = described()
    page = render_page(document)
    assert [path for path in document["paths"] if f">{path}<" not in page] == []
    assert [name for name in document["components"]["schemas"] if f"<code>{name}</code>" not in page] == []
    assert re.findall(r"<(?:script|link|img|iframe|object)\b|https?://|@import|url\(", page) == []
    assert re.findall(r'href="([^#"][^"]*)"', page) == ["openapi.json"]


async def test_the_page_shows_what_is_written_as_it_is_written(described: Described) -> None:
    _, document = described()
    document["info"]["description"] = "<script>`a & b`"
    assert "&lt;script&gt;<code>a &amp; b</code>" in render_page(document)
