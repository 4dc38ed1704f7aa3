"""Guards, error replies and discovery: everything around the inference routes."""

from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.services import fake_app


async def ask(folder: Path, method: str, path: str, *, headers: Any = None, data: Any = None, **config: Any) -> Any:
    client = fake_app(folder, **config).test_client()
    with trio.fail_after(5):
        return await client.open(path, method=method, headers=headers, data=data)


async def error_of(response: Any) -> Any:
    body = await response.get_json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "code", "param"}
    return body["error"]


async def test_health_tells_what_runs(tmp_path: Path) -> None:
    response = await ask(tmp_path, "GET", "/health")
    body = await response.get_json()
    assert response.status_code == 200
    assert {key: body[key] for key in ("status", "backend", "models", "ui", "ui_management")} == {
        "status": "ok",
        "backend": "cpu",
        "models": 4,
        "ui": False,
        "ui_management": False,
    }
    assert body["version"]
    assert body["uptime_s"] >= 0
    assert body["placements"] == []


@pytest.mark.parametrize("ui", [True, False])
async def test_there_is_no_page_to_be_switched_on(tmp_path: Path, ui: bool) -> None:
    assert (await (await ask(tmp_path, "GET", "/health", ui=ui)).get_json())["ui"] is False


async def test_head_is_answered_where_get_is(tmp_path: Path) -> None:
    response = await ask(tmp_path, "HEAD", "/health")
    assert response.status_code == 200


async def test_the_page_names_version_and_models(tmp_path: Path) -> None:
    response = await ask(tmp_path, "GET", "/")
    page = await response.get_data(as_text=True)
    assert response.content_type.startswith("text/html")
    assert "moonshine-live (not_installed)" in page


async def test_an_unknown_path_is_named(tmp_path: Path) -> None:
    response = await ask(tmp_path, "GET", "/nope")
    error = await error_of(response)
    assert (response.status_code, error["type"], error["message"]) == (404, "not_found", "unknown endpoint: /nope")


@pytest.mark.parametrize("path", ["/health/", "/v1//models"])
async def test_a_path_is_compared_exactly(tmp_path: Path, path: str) -> None:
    assert (await ask(tmp_path, "GET", path)).status_code == 404


async def test_a_wrong_method_is_405_with_those_allowed(tmp_path: Path) -> None:
    response = await ask(tmp_path, "GET", "/v1/audio/speech")
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]
    assert (await error_of(response))["code"] == "method_not_allowed"


async def test_a_plain_request_to_a_websocket_says_so(tmp_path: Path) -> None:
    response = await ask(tmp_path, "GET", "/v1/audio/transcriptions/live")
    assert response.status_code == 400
    assert "WebSocket" in (await error_of(response))["message"]


async def test_a_long_value_is_quoted_in_part(tmp_path: Path) -> None:
    response = await ask(tmp_path, "POST", "/v1/audio/speech", data=b'{"input": "a", "model": "%s"}' % (b"x" * 100_000))
    message = (await error_of(response))["message"]
    assert message.startswith("unknown model id: 'xxx")
    assert message.endswith("configured: moonshine, moonshine-live, piper, vad")
    assert len(message) < 2000


async def test_models_are_listed_in_the_order_of_the_configuration(tmp_path: Path) -> None:
    body = await (await ask(tmp_path, "GET", "/v1/models")).get_json()
    assert body["object"] == "list"
    assert [row["id"] for row in body["data"]] == ["moonshine", "moonshine-live", "piper", "vad"]
    row = body["data"][0]
    assert (row["object"], row["owned_by"], row["family"]) == ("model", "engine", "moonshine_asr")
    assert (row["state"], row["loaded"], row["aliases"]) == ("not_installed", False, ["whisper-1"])
    assert "audiocppctl pull moonshine_tiny_en" in row["reason"]
    assert {"slots", "active_slots", "queued_requests", "max_parallel_slots", "path", "device"} <= set(row)
    assert not {"params", "spec", "session_options"} & set(row)


async def test_params_and_session_options_are_listed_on_request(tmp_path: Path) -> None:
    path = "/v1/models?include_params=true&include_session_options=1"
    rows = (await (await ask(tmp_path, "GET", path)).get_json())["data"]
    speed = next(param for param in rows[2]["params"] if param["name"] == "speed")
    assert (speed["type"], speed["required"]) == ("float", False)
    assert "values" not in speed
    assert rows[2]["session_options"] == {}
    assert rows[2]["spec"]["family"] == "piper_tts"


async def test_a_model_is_found_by_alias(tmp_path: Path) -> None:
    assert (await (await ask(tmp_path, "GET", "/v1/models/whisper-1")).get_json())["id"] == "moonshine"


async def test_an_unknown_model_lists_those_configured(tmp_path: Path) -> None:
    response = await ask(tmp_path, "GET", "/v1/models/gpt-4o")
    error = await error_of(response)
    assert (response.status_code, error["code"]) == (404, "model_not_found")
    assert "moonshine-live" in error["message"]


@pytest.mark.parametrize("query", ["?model=piper", ""])
async def test_voices_of_the_package_and_the_presets_are_listed(tmp_path: Path, query: str) -> None:
    models = [{"id": "piper", "family": "piper_tts", "voice_presets": {"narrator": {"voice_id": "joe"}}}]
    response = await ask(tmp_path, "GET", f"/v1/audio/voices{query}", models=models)
    assert await response.get_json() == {"voices": ["joe", "narrator"]}


async def test_voices_of_an_unknown_model_are_those_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "demo.wav").write_bytes(b"")
    response = await ask(tmp_path, "GET", "/v1/audio/voices?model=nope", voice_dir=str(tmp_path))
    assert await response.get_json() == {"voices": ["demo"]}


async def test_a_request_id_comes_back(tmp_path: Path) -> None:
    response = await ask(tmp_path, "GET", "/nope", headers={"X-Request-Id": "abc-1.2"})
    assert response.headers["X-Request-Id"] == "abc-1.2"


async def test_an_odd_request_id_is_replaced(tmp_path: Path) -> None:
    response = await ask(tmp_path, "GET", "/health", headers={"X-Request-Id": "a b<script>"})
    assert response.headers["X-Request-Id"] not in ("", "a b<script>")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:80", "127.9.9.9"])
async def test_loopback_hosts_are_accepted(tmp_path: Path, host: str) -> None:
    assert (await ask(tmp_path, "GET", "/health", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "192.168.1.2", "localhost.evil.example", "a:b:c"])
async def test_foreign_hosts_are_refused(tmp_path: Path, host: str) -> None:
    response = await ask(tmp_path, "GET", "/health", headers={"Host": host})
    assert response.status_code == 403
    assert "accepted are localhost" in (await error_of(response))["message"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://[::1", "http://[no/"])
async def test_a_foreign_origin_is_refused(tmp_path: Path, origin: str) -> None:
    response = await ask(tmp_path, "POST", "/v1/audio/speech", headers={"Origin": origin}, data=b"{}")
    assert response.status_code == 403
    assert (await error_of(response))["type"] == "forbidden"
    assert "Access-Control-Allow-Origin" not in response.headers


async def test_the_own_origin_is_accepted(tmp_path: Path) -> None:
    headers = {"Origin": "http://localhost:8080", "Host": "localhost:8080"}
    assert (await ask(tmp_path, "GET", "/health", headers=headers)).status_code == 200


@pytest.mark.parametrize("origins", ["*", ["https://app.example"]])
async def test_allowed_origins_are_echoed_also_on_errors(tmp_path: Path, origins: Any) -> None:
    headers = {"Origin": "https://app.example"}
    response = await ask(tmp_path, "GET", "/nope", headers=headers, cors_origins=origins)
    assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"


async def test_a_preflight_is_204_on_every_path(tmp_path: Path) -> None:
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    response = await ask(tmp_path, "OPTIONS", "/v1/audio/speech", headers=headers, cors_origins="*")
    assert response.status_code == 204
    assert response.headers["Access-Control-Allow-Methods"] == "GET, POST"
    assert response.headers["Access-Control-Allow-Headers"] == "*"


async def test_keys_are_asked_for_except_at_health(tmp_path: Path) -> None:
    config = {"api_keys": ["secret"]}
    assert (await ask(tmp_path, "GET", "/health", **config)).status_code == 200
    response = await ask(tmp_path, "GET", "/v1/models", **config)
    assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    wrong = await ask(tmp_path, "GET", "/v1/models", headers={"Authorization": "Bearer nope"}, **config)
    assert (await error_of(wrong))["code"] == "invalid_api_key"
    right = await ask(tmp_path, "GET", "/v1/models", headers={"Authorization": "Bearer secret"}, **config)
    assert right.status_code == 200


async def test_keys_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# for the kitchen\nsecret\n")
    headers = {"Authorization": "Bearer secret"}
    config = {"api_keys": {"file": str(tmp_path / "keys")}}
    assert (await ask(tmp_path, "GET", "/v1/models", headers=headers, **config)).status_code == 200


async def test_unloading_lists_known_and_unknown_ids_once(tmp_path: Path) -> None:
    data = b'{"model_ids": ["vad", "nope", "vad"]}'
    response = await ask(tmp_path, "POST", "/v1/tasks/unload_models", data=data)
    assert await response.get_json() == {"unloaded": ["vad"], "not_found": ["nope"]}


async def test_unloading_nothing_is_not_unloading_everything(tmp_path: Path) -> None:
    response = await ask(tmp_path, "POST", "/v1/tasks/unload_models", data=b'{"model_ids": []}')
    assert await response.get_json() == {"unloaded": [], "not_found": []}


@pytest.mark.parametrize("body", [b"{}", b'{"model_ids": "vad"}', b'{"model_ids": [1]}', b'{"model_ids": null}'])
async def test_unloading_needs_an_array_of_strings(tmp_path: Path, body: bytes) -> None:
    response = await ask(tmp_path, "POST", "/v1/tasks/unload_models", data=body)
    assert response.status_code == 400
    assert (await error_of(response))["param"].startswith("model_ids")


async def test_unloading_all_ignores_the_body(tmp_path: Path) -> None:
    response = await ask(tmp_path, "POST", "/v1/tasks/unload_all_models", data=b"\xff not json")
    assert await response.get_json() == {"unloaded": []}
