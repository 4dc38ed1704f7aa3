"""GET /metrics, `Server-Timing` and the access line: what is told of each request, and of the daemon."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from tests.fakes.asgi import serving, websocket
from tests.fakes.exposition import Series, series_of, value
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.errors import RunFailed, ServerBusy
from audiocpp.engines.tasks import AudioChunk

ROOT = Path(__file__).parent.parent.parent
CHUNK = AudioChunk(pcm=bytes(400), sample_rate=22050)
SPEECH = json.dumps({"model": "tts-1", "input": "hello"}).encode()
MODELS = [{"id": "piper", "family": "piper_tts", "aliases": ["tts-1"], "lazy": True}]


class Client:
    """Requests to one fake daemon."""

    def __init__(self, folder: Path, script: Script | None = None, **config: Any) -> None:
        self._client = fake_app(folder, script, **config).test_client()

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        with trio.fail_after(5):
            response = await self._client.open(path, method=method, **more)
            await response.get_data()
            return response

    async def series(self) -> Series:
        response = await self.ask("GET", "/metrics")
        assert response.status_code == 200
        assert response.content_type.startswith("text/plain; version=0.0.4")
        return series_of(await response.get_data(as_text=True))


async def test_requests_are_counted_by_route_method_and_status(tmp_path: Path) -> None:
    client = Client(tmp_path)
    for method, path in [("GET", "/health"), ("GET", "/health"), ("HEAD", "/health"), ("GET", "/v1/models/piper")]:
        await client.ask(method, path)
    await client.ask("GET", "/v1/models/nope")
    series = await client.series()
    count = "audiocpp_http_requests_total"
    assert value(series, count, route="/health", method="GET", status="200") == 2
    assert value(series, count, route="/health", method="HEAD", status="200") == 1
    assert value(series, count, route="/v1/models/{model_id}", method="GET", status="200") == 1
    assert value(series, count, route="/v1/models/{model_id}", method="GET", status="404") == 1
    assert value(series, "audiocpp_http_request_duration_seconds_count", route="/health", model="") == 3
    assert value(series, "audiocpp_request_errors_total", code="model_not_found") == 1


async def test_no_client_can_add_a_series(tmp_path: Path) -> None:
    client = Client(tmp_path)
    requests: list[tuple[str, str, Any]] = [
        ("GET", "/nope", None),
        ("NOPE", "/health", None),
        ("DELETE", "/health", None),
        ("GET", "/v1/models/nope", None),
        ("POST", "/v1/audio/speech", b'{"model": "nope", "input": "a"}'),
    ]

    async def ask_all(word: str) -> set[Any]:
        for method, path, data in requests:
            body = None if data is None else data.replace(b"nope", word.encode())
            await client.ask(method.replace("NOPE", word.upper()), path.replace("nope", word), data=body)
        return set(await client.series())

    await client.series()  # the scrape itself is counted too
    before = await ask_all("one")
    for word in ("two", "three", "four"):
        assert await ask_all(word) == before


async def test_a_run_is_counted_under_its_entry(tmp_path: Path) -> None:
    client = Client(tmp_path, Script(events=[CHUNK]), models=MODELS)
    assert (await client.ask("POST", "/v1/audio/speech", data=SPEECH)).status_code == 200
    series = await client.series()
    route = "/v1/audio/speech"
    assert value(series, "audiocpp_http_request_duration_seconds_count", route=route, model="piper") == 1
    # The scripted run took 250 ms for 0.5 s of speech, of which the first came after 10 ms.
    assert value(series, "audiocpp_real_time_factor_sum", model="piper") == pytest.approx(0.5)
    assert value(series, "audiocpp_real_time_factor_bucket", model="piper", le="0.5") == 1
    assert value(series, "audiocpp_real_time_factor_bucket", model="piper", le="0.3") == 0
    assert value(series, "audiocpp_first_output_seconds_sum", model="piper") == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("script", "code"),
    [(Script(refuses=ServerBusy("busy")), "server_busy"), (Script(fails=RunFailed("")), "run_failed")],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_refused_or_failed_is_counted_by_its_code_and_no_run(
    tmp_path: Path, script: Script, code: str, stream: bool
) -> None:
    client = Client(tmp_path, script)
    await client.ask("POST", "/v1/audio/speech", data=json.dumps({"input": "hello", "stream": stream}).encode())
    series = await client.series()
    assert value(series, "audiocpp_request_errors_total", code=code) == 1
    assert value(series, "audiocpp_real_time_factor_count", model="piper") == 0


async def test_a_stream_that_breaks_off_is_counted_by_the_code_of_its_error_event(tmp_path: Path) -> None:
    client = Client(tmp_path, Script(events=[CHUNK], fails=RunFailed("the graph failed")))
    response = await client.ask("POST", "/v1/audio/speech", data=b'{"input": "hello", "stream": true}')
    assert response.status_code == 200
    assert value(await client.series(), "audiocpp_request_errors_total", code="run_failed") == 1


async def test_present_figures_are_read_at_the_scrape(tmp_path: Path) -> None:
    series = await Client(tmp_path, models=MODELS).series()
    assert value(series, "audiocpp_slots", model="piper") == 2
    assert ("audiocpp_active_slots", frozenset({("model", "piper")})) in series
    assert ("audiocpp_queued_requests", frozenset({("model", "piper")})) in series
    assert ("audiocpp_spool_bytes", frozenset()) in series
    assert value(series, "process_resident_memory_bytes") > 1 << 20
    (build,) = [labels for name, labels in series if name == "audiocpp_build_info"]
    assert dict(build)["version"]


async def test_an_upload_in_progress_shows_in_the_spool(tmp_path: Path) -> None:
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n"
    head += b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + bytes(4_000_000)
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path)) as server, await server.connect() as stream:
            await stream.send_all(head + part)
            while True:
                reply = (await server.get("/metrics")).partition(b"\r\n\r\n")[2].decode()
                if value(series_of(reply), "audiocpp_spool_bytes") > 1_000_000:
                    break
                await trio.lowlevel.checkpoint()


async def test_live_sessions_are_counted_while_they_are_open(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with serving(fake_app(tmp_path), drain_s=2.0, ping_interval_s=1.0) as server:

            async def figures() -> Series:
                return series_of((await server.get("/metrics")).partition(b"\r\n\r\n")[2].decode())

            async with websocket(server, "/v1/audio/transcriptions/live") as socket:
                await socket.get_message()
                assert value(await figures(), "audiocpp_live_sessions", model="moonshine-live") == 1
            while value(series := await figures(), "audiocpp_live_sessions", model="moonshine-live") != 0:
                await trio.lowlevel.checkpoint()
            requests = {labels for name, labels in series if name == "audiocpp_http_requests_total"}
            assert ("route", "/v1/audio/transcriptions/live") in frozenset().union(*requests)
            assert value(series, "audiocpp_real_time_factor_count", model="moonshine-live") == 0


async def test_the_documentation_lists_what_is_exposed(tmp_path: Path) -> None:
    client = Client(tmp_path, Script(events=[CHUNK]))
    await client.ask("POST", "/v1/audio/speech", data=b'{"input": "hello"}')
    section = (ROOT / "docs" / "api.md").read_text().partition("## Metrics\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`audiocpp_.+?) \| (.*?) \|", section, re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", row[1])) for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    text = await (await client.ask("GET", "/metrics")).get_data(as_text=True)
    families = {family.name: family for family in text_string_to_metric_families(text) if "audiocpp" in family.name}
    assert {name.removesuffix("_total") for name in documented} == set(families)
    for name, labels in documented.items():
        for sample in families[name.removesuffix("_total")].samples:
            assert set(sample.labels) - {"le"} == labels, sample


async def test_keys_apply(tmp_path: Path) -> None:
    client = Client(tmp_path, api_keys=["secret"])
    assert (await client.ask("GET", "/metrics")).status_code == 401
    assert (await client.ask("GET", "/metrics", headers={"Authorization": "Bearer secret"})).status_code == 200


def durations(response: Any) -> dict[str, float]:
    """`Server-Timing`: name -> milliseconds."""
    entries = response.headers["Server-Timing"].split(", ")
    matches = [re.fullmatch(r"(\w+);dur=(\d+\.\d)", entry) for entry in entries]
    return {match[1]: float(match[2]) for match in matches if match}


async def test_every_reply_tells_its_times(tmp_path: Path) -> None:
    client = Client(tmp_path, Script(events=[CHUNK]), models=MODELS)
    assert list(durations(await client.ask("GET", "/health"))) == ["total"]
    assert list(durations(await client.ask("GET", "/nope"))) == ["total"]
    spoken = durations(await client.ask("POST", "/v1/audio/speech", data=SPEECH))
    assert list(spoken) == ["queue", "load", "run", "total"]
    assert (spoken["queue"], spoken["load"], spoken["run"]) == (0.0, 0.0, 250.0)


async def test_a_stream_tells_what_is_known_when_it_begins(tmp_path: Path) -> None:
    client = Client(tmp_path, Script(events=[CHUNK]))
    response = await client.ask("POST", "/v1/audio/speech", data=b'{"input": "hello", "stream": true}')
    assert list(durations(response)) == ["queue", "load", "total"]


async def test_the_access_line_has_the_times_and_the_entry(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="audiocpp.daemon.http.access"):
        await Client(tmp_path, Script(events=[CHUNK]), models=MODELS).ask("POST", "/v1/audio/speech", data=SPEECH)
    (record,) = [record for record in caplog.records if record.name == "audiocpp.daemon.http.access"]
    assert {key: vars(record)[key] for key in ("model", "queue_ms", "load_ms", "run_ms", "status")} == {
        "model": "piper",
        "queue_ms": 0,
        "load_ms": 0,
        "run_ms": 250.0,
        "status": 200,
    }
