"""The example configurations: each is valid, starts a daemon, and its models answer."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import CHECKOUT
from tests.integration.daemon_process import COMMANDS, DaemonProcess, running_daemon
from tests.integration.passages import passage

from audiocpp.engines.catalog import Catalog

pytestmark = pytest.mark.integration

EXAMPLES = sorted((CHECKOUT / "examples").glob("*.json"))
SENTENCE = "It was the best of times, it was the worst of times."
RECORDING = "beckett"


def document_of(example: Path) -> dict[str, Any]:
    return dict(json.loads(example.read_text(encoding="utf-8")))


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def example(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def started(tmp_path: Path, models_root: Path, example: Path) -> Iterator[DaemonProcess]:
    """A daemon with the example's configuration on a port of its own; its packages may be missing."""
    with running_daemon(tmp_path, models_root, **document_of(example)) as running:
        yield running


@pytest.mark.parametrize("family", Catalog.load().families)
def test_every_family_has_an_example_of_its_own(family: str) -> None:
    models = document_of(CHECKOUT / "examples" / f"{family}.json")["models"]
    assert {model["family"] for model in models} == {family}


def test_an_example_has_no_fault_and_no_unknown_key(example: Path) -> None:
    command = [COMMANDS / "audiocppd", "--config", example, "--strict-config", "--check-config"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "has no effect" not in done.stderr
    assert [model["id"] for model in json.loads(done.stdout)["models"]] == [
        model["id"] for model in document_of(example)["models"]
    ]


def test_a_daemon_with_an_example_listens_whatever_is_installed(started: DaemonProcess, example: Path) -> None:
    with started.client() as client:
        assert client.get("/health").json()["status"] == "ok"
        listed = client.get("/v1/models").json()["data"]
    assert [row["id"] for row in listed] == [model["id"] for model in document_of(example)["models"]]


def test_every_model_of_an_example_answers(
    tmp_path: Path, every_model: Path, audio_files: dict[str, Path], example: Path
) -> None:
    with running_daemon(tmp_path, every_model, **document_of(example)) as running, running.client() as client:
        for row in client.get("/v1/models").json()["data"]:
            reply = REQUESTS[row["task"]](client, row["id"], audio_files[f"{RECORDING}.wav"])
            assert reply.status_code == 200, f"{row['id']}: {reply.text}"
        for model in document_of(example)["models"]:
            for preset in model.get("voice_presets", {}):
                reply = client.post("/v1/audio/speech", json={"model": model["id"], "input": SENTENCE, "voice": preset})
                assert reply.status_code == 200, f"{preset}: {reply.text}"


def speak(client: httpx.Client, model: str, recording: Path) -> httpx.Response:
    return client.post("/v1/audio/speech", json={"model": model, "input": SENTENCE})


def transcribe(client: httpx.Client, model: str, recording: Path) -> httpx.Response:
    with recording.open("rb") as file:
        return client.post("/v1/audio/transcriptions", files={"file": file}, data={"model": model})


def find_speech(client: httpx.Client, model: str, recording: Path) -> httpx.Response:
    return client.post("/v1/tasks/run", json={"model": model, "audio": str(recording)})


def align(client: httpx.Client, model: str, recording: Path) -> httpx.Response:
    body = {"model": model, "audio": str(recording), "text": passage(RECORDING), "language": "en"}
    return client.post("/v1/tasks/run", json=body)


Request = Callable[[httpx.Client, str, Path], httpx.Response]
REQUESTS: dict[str, Request] = {"tts": speak, "asr": transcribe, "vad": find_speech, "align": align}
