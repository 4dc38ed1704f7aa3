"""The daemon behind TLS, and with requests in WebSocket messages: real clients of each."""

import base64
import io
import json
import ssl
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import trio
import trio_websocket
from openai import OpenAI
from tests.integration.daemon_process import DaemonProcess, running_daemon

pytestmark = pytest.mark.integration

FILES = Path(__file__).parent.parent / "data" / "tls"
CERTIFICATE = str(FILES / "cert.pem")
OPTIONS = {"cert_file": CERTIFICATE, "key_file": str(FILES / "key.pem")}
SENTENCE = "It was the best of times."
LIMIT_S = 60


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory, models_root: Path) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("https")
    with running_daemon(folder, models_root, frontend_listener="https", frontend_options=OPTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def bridging(tmp_path_factory: pytest.TempPathFactory, models_root: Path) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("websocket")
    with running_daemon(folder, models_root, flags=("--frontend-listener", "websocket")) as running:
        yield running


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CERTIFICATE)


def test_the_ready_line_names_the_scheme(https: DaemonProcess) -> None:
    assert https.url.startswith("https://127.0.0.1:")
    assert https.ctl("status")["url"] == https.url


def test_openais_client_speaks_and_streams_through_tls(https: DaemonProcess) -> None:
    http = openai.DefaultHttpxClient(trust_env=False, verify=trusting())
    with OpenAI(base_url=f"{https.url}/v1", api_key="-", max_retries=0, timeout=60, http_client=http) as client:
        whole = client.audio.speech.create(model="piper", voice="alloy", input=SENTENCE, response_format="wav")
        with wave.open(io.BytesIO(whole.content)) as file:
            assert file.getnframes() > file.getframerate()
        with client.audio.speech.with_streaming_response.create(
            model="piper", voice="joe", input=SENTENCE, response_format="pcm"
        ) as response:
            assert sum(map(len, response.iter_bytes())) > 20_000
        text = client.audio.transcriptions.create(model="moonshine", file=("a.wav", whole.content)).text
        assert "best of times" in text.lower()


def test_curl_trusts_it_by_its_certificate_and_not_without(https: DaemonProcess) -> None:
    url = https.url.replace("127.0.0.1", "localhost") + "/health"
    trusted = subprocess.run(["curl", "-sS", "--cacert", CERTIFICATE, url], capture_output=True, text=True, check=True)
    assert json.loads(trusted.stdout)["status"] == "ok"
    assert subprocess.run(["curl", "-sS", url], capture_output=True, check=False).returncode == 60
    plain = url.replace("https://", "http://")
    assert subprocess.run(["curl", "-sS", plain], capture_output=True, check=False).returncode != 0


def test_a_large_upload_and_a_refused_one_are_answered_through_tls(https: DaemonProcess) -> None:
    with https.client(verify=trusting()) as client:
        for data in (bytes(5 << 20), b"RIFF" + bytes(3 << 20)):
            reply = client.post("/v1/audio/transcriptions", files={"file": ("a", data)}, data={"model": "moonshine"})
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, "file")
        assert client.get("/health").status_code == 200


async def test_a_live_session_runs_through_tls(https: DaemonProcess, audio_files: dict[str, Path]) -> None:
    with wave.open(str(audio_files["beckett.wav"])) as file:
        rate, pcm = file.getframerate(), file.readframes(file.getnframes())
    url = https.url.replace("https://", "wss://")
    url += f"/v1/audio/transcriptions/live?model=moonshine-live&sample_rate={rate}"
    events: list[dict[str, Any]] = []
    with trio.fail_after(LIMIT_S):
        async with (
            trio_websocket.open_websocket_url(url, ssl_context=trusting()) as socket,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_send_audio, socket, pcm)
            while not events or events[-1]["type"] != "transcript.text.done":
                events.append(json.loads(await socket.get_message()))
    assert len(events[-1]["text"].split()) > 10


async def _send_audio(socket: Any, pcm: bytes) -> None:
    for start in range(0, len(pcm), 32_000):
        await socket.send_message(pcm[start : start + 32_000])
    await socket.send_message('{"type": "end"}')


async def test_requests_in_messages_are_answered(bridging: DaemonProcess) -> None:
    url = bridging.url.replace("http://", "ws://")
    with trio.fail_after(LIMIT_S):
        async with trio_websocket.open_websocket_url(f"{url}/v1/audio/speech") as socket:
            await socket.send_message(json.dumps({"model": "piper", "input": SENTENCE}))
            reply = json.loads(await socket.get_message())
            assert (reply["status"], reply["content_type"]) == (200, "audio/wav")
            assert base64.b64decode(reply["body"]).startswith(b"RIFF")
            await socket.send_message(
                json.dumps({"id": 2, "body_json": {"model": "piper", "input": SENTENCE, "stream": True}})
            )
            kinds = [json.loads(await socket.get_message())["type"]]
            while kinds[-1] != "response.done":
                kinds.append(json.loads(await socket.get_message())["type"])
            assert kinds[0] == "response.start"
        async with trio_websocket.open_websocket_url(f"{url}/v1/audio/transcriptions/live") as socket:
            assert json.loads(await socket.get_message())["type"] == "session.created"
    with bridging.client() as client:
        assert client.get("/health").status_code == 200
        assert client.get("/nope").status_code == 404


def test_a_certificate_that_is_not_there_ends_the_start(tmp_path: Path, models_root: Path) -> None:
    options = {**OPTIONS, "cert_file": "gone.pem"}
    with (
        pytest.raises(AssertionError, match=r"frontend_options\.cert_file: .*gone\.pem cannot be read"),
        running_daemon(tmp_path, models_root, frontend_listener="https", frontend_options=options),
    ):
        pass
