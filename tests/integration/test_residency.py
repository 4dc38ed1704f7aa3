"""Real models in real worker processes: loaded, shared, unloaded, killed."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.integration.daemon_process import COMMANDS, MODELS, DaemonProcess, children_of, eventually, running_daemon

pytestmark = pytest.mark.integration

SENTENCE = "The quick brown fox jumps over the lazy dog."


@pytest.fixture
def daemon(tmp_path: Path, models_root: Path) -> Iterator[DaemonProcess]:
    """A daemon of this test alone: its workers are killed here."""
    with running_daemon(tmp_path, models_root) as running:
        yield running


def speak(client: httpx.Client, text: str = SENTENCE, model: str = "piper") -> httpx.Response:
    return client.post("/v1/audio/speech", json={"model": model, "input": text})


def segments(client: httpx.Client, path: Path) -> httpx.Response:
    return client.post("/v1/tasks/run", json={"model": "vad", "audio": str(path)})


def test_loading_is_idempotent_and_says_whether_it_changed_anything(daemon: DaemonProcess) -> None:
    first, second = daemon.ctl("load", "piper"), daemon.ctl("load", "piper")
    assert (first["changed"], second["changed"]) == (True, False)
    assert daemon.ps()["piper"]["placement"] == "onnxruntime:CPUExecutionProvider"


def test_unloading_ends_the_worker_and_reports_what_came_back(daemon: DaemonProcess) -> None:
    daemon.ctl("load", "piper")
    row = daemon.ps()["piper"]
    report = daemon.ctl("unload", "piper")
    assert report["changed"]
    assert report["released_bytes"] >= 0.98 * row["resident_bytes"]
    assert not Path(f"/proc/{row['pid']}").exists()
    assert not daemon.ctl("unload", "piper")["changed"]


def test_four_first_requests_at_once_load_the_model_once(daemon: DaemonProcess) -> None:
    with daemon.client() as client, ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: speak(client), range(4)))
    assert [reply.status_code for reply in replies] == [200] * 4
    assert [record.get("event") for record in daemon.log].count("loaded") == 1


def test_entries_that_differ_only_in_mode_share_one_worker(daemon: DaemonProcess) -> None:
    daemon.ctl("load", "moonshine")
    rows = daemon.ps()
    assert rows["moonshine"]["pid"] == rows["moonshine-live"]["pid"]


def test_a_killed_worker_costs_its_request_and_nothing_else(
    daemon: DaemonProcess, audio_files: dict[str, Path]
) -> None:
    with daemon.client() as client:
        assert speak(client).status_code == 200
        assert segments(client, audio_files["beckett.wav"]).status_code == 200
        victim = daemon.ps()["piper"]["pid"]
        replies: list[httpx.Response] = []
        request = threading.Thread(target=lambda: replies.append(speak(client, f"{SENTENCE} " * 60)))
        request.start()
        eventually(lambda: daemon.ps()["piper"]["active_slots"], what="the request did not start")
        os.kill(victim, signal.SIGKILL)
        request.join(timeout=1.0)
        assert not request.is_alive(), "the request was not answered within a second"
        assert replies[0].status_code == 500
        assert replies[0].json()["error"]["code"] == "worker_died"
        assert "SIGKILL" in replies[0].json()["error"]["message"]
        assert segments(client, audio_files["beckett.wav"]).status_code == 200
        assert speak(client).status_code == 200
        assert daemon.ps()["piper"]["pid"] != victim


def test_a_killed_worker_ends_its_live_session_with_an_error_and_the_next_session_works(
    daemon: DaemonProcess, audio_files: dict[str, Path]
) -> None:
    command = [COMMANDS / "audiocppctl", "--socket", daemon.admin_socket, "--json", "listen", "--model"]
    command += ["moonshine-live", audio_files["beckett.wav"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as listener:
        assert listener.stdout is not None
        assert json.loads(listener.stdout.readline())["type"] == "session.created"
        os.kill(daemon.ps()["moonshine-live"]["pid"], signal.SIGKILL)
        killed = time.monotonic()
        printed = listener.stdout.read()
        listener.wait(10)
        assert time.monotonic() - killed < 2.0
        assert listener.returncode == 1
        assert "worker_died" in printed
    heard = daemon.ctl("transcribe", "--model", "moonshine-live", str(audio_files["beckett.wav"]))
    assert "try again" in heard["text"].lower()


def test_a_client_that_leaves_frees_its_slot_within_a_second(daemon: DaemonProcess) -> None:
    daemon.ctl("load", "piper")
    with daemon.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/audio/speech", json={"model": "piper", "input": f"{SENTENCE} " * 200}, timeout=0.5)
    eventually(lambda: not daemon.ps()["piper"]["active_slots"], limit_s=1.5, what="the slot is still taken")


def test_the_death_of_the_fork_server_is_survived(daemon: DaemonProcess) -> None:
    with daemon.client() as client:
        assert speak(client).status_code == 200
        worker = daemon.ps()["piper"]["pid"]
        (fork_server,) = (pid for pid in daemon.children() if worker in children_of(pid))
        os.kill(fork_server, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{worker}").exists(), limit_s=2.0, what="the worker outlived its parent")
        assert speak(client).status_code == 200


def test_workers_leave_with_a_daemon_that_is_killed(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root) as daemon:
        daemon.ctl("load", "vad")
        left = daemon.children()
        daemon.process.kill()
        daemon.process.wait(5)
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), limit_s=5.0, what="orphans are left")
    with running_daemon(tmp_path, models_root) as again:
        assert again.ctl("load", "vad")["changed"]


def test_one_place_is_shared_by_turns(tmp_path: Path, models_root: Path, audio_files: dict[str, Path]) -> None:
    with running_daemon(tmp_path, models_root, max_loaded_models=1) as daemon, daemon.client() as client:
        for _ in range(2):
            assert speak(client).status_code == 200
            assert list(daemon.ps()) == ["piper"]
            assert segments(client, audio_files["beckett.wav"]).status_code == 200
            assert list(daemon.ps()) == ["vad"]


def test_a_model_that_can_never_fit_is_refused_with_the_figures(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root, max_resident_memory_mb=20) as daemon, daemon.client() as client:
        reply = speak(client)
        assert reply.status_code == 503
        assert reply.json()["error"]["type"] == "insufficient_memory"
        assert "max_resident_memory_mb allows 20 MiB" in reply.json()["error"]["message"]
        assert reply.headers["Retry-After"]
        daemon.ctl("load", "piper", expect=7)


def test_an_idle_model_leaves_after_its_time(tmp_path: Path, models_root: Path) -> None:
    models = [{**model, "keep_alive_ms": 200} for model in MODELS if model["id"] == "piper"]
    with running_daemon(tmp_path, models_root, models=models) as daemon, daemon.client() as client:
        assert speak(client).status_code == 200
        eventually(lambda: not daemon.ps(), limit_s=5.0, what="the model is still resident")


def test_what_was_measured_is_the_next_estimate(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root) as daemon:
        measured = daemon.ctl("load", "piper")["resident_bytes"]
    # The rule would ask for 64 MB of weights times 1.5 and 128 MiB; what was measured is a good deal less.
    limit_mb = int(measured * 1.1) >> 20
    with running_daemon(tmp_path, models_root, max_resident_memory_mb=limit_mb) as daemon:
        assert daemon.ctl("load", "piper")["changed"]


@pytest.mark.parametrize("damage", ["truncated", "text", "missing"])
def test_a_damaged_model_fails_alone_and_backs_off(tmp_path: Path, models_root: Path, damage: str) -> None:
    broken = tmp_path / "voice"
    broken.mkdir()
    source = models_root / "piper_en_us_joe_medium"
    (broken / "en_US-joe-medium.onnx.json").write_bytes((source / "en_US-joe-medium.onnx.json").read_bytes())
    content = {"truncated": (source / "en_US-joe-medium.onnx").read_bytes()[:100_000], "text": b"not a model"}
    if damage in content:
        (broken / "en_US-joe-medium.onnx").write_bytes(content[damage])
    models = [*MODELS, {"id": "broken", "family": "piper_tts", "path": str(broken)}]
    with running_daemon(tmp_path, models_root, models=models) as daemon, daemon.client() as client:
        reply = speak(client, model="broken")
        assert reply.status_code == (404 if damage == "missing" else 503)
        state = {row["id"]: row for row in daemon.ctl("models")["models"]}["broken"]
        assert state["state"] == ("not_installed" if damage == "missing" else "failed")
        assert state["reason"]
        assert speak(client).status_code == 200


def test_a_request_over_its_time_is_ended_and_its_slot_free(tmp_path: Path, models_root: Path) -> None:
    models = [{**model, "request_timeout_ms": 300} for model in MODELS if model["id"] == "piper"]
    with running_daemon(tmp_path, models_root, models=models) as daemon, daemon.client() as client:
        daemon.ctl("load", "piper")
        reply = speak(client, f"{SENTENCE} " * 100)
        assert reply.status_code == 408
        assert reply.json()["error"]["code"] == "request_timeout"
        assert daemon.ps()["piper"]["active_slots"] == 0


def test_a_run_past_its_models_memory_limit_is_stopped_alone(
    tmp_path: Path, models_root: Path, audio_files: dict[str, Path]
) -> None:
    with running_daemon(tmp_path, models_root) as daemon:
        daemon.ctl("load", "piper")  # makes the optimised graph, which takes more memory than any later load
        daemon.ctl("unload", "piper")
        loaded_mb = daemon.ctl("load", "piper")["resident_bytes"] >> 20
    models = [{**model, "memory_limit_mb": loaded_mb + 50} for model in MODELS if model["id"] == "piper"]
    models += [model for model in MODELS if model["id"] == "vad"]
    with running_daemon(tmp_path, models_root, models=models) as daemon, daemon.client() as client:
        daemon.ctl("load", "vad")
        neighbour = daemon.ps()["vad"]["pid"]
        daemon.ctl("load", "piper")
        reply = speak(client, f"{SENTENCE} " * 100)
        assert reply.status_code == 503
        assert reply.json()["error"]["type"] == "insufficient_memory"
        assert daemon.ps()["vad"]["pid"] == neighbour
        assert segments(client, audio_files["beckett.wav"]).status_code == 200


def test_a_stopped_worker_is_noticed_and_its_request_fails(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root) as daemon, daemon.client() as client:
        daemon.ctl("load", "piper")
        os.kill(daemon.ps()["piper"]["pid"], signal.SIGSTOP)
        reply = speak(client)
        assert reply.status_code == 500
        assert "has not answered" in reply.json()["error"]["message"]
        assert speak(client).status_code == 200


def test_explain_says_what_a_load_would_mean_and_changes_nothing(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root, max_loaded_models=1) as daemon:
        before = daemon.ctl("explain", "piper")
        assert (before["state"], before["room"], before["estimate_source"]) == ("unloaded", "now", "rule")
        assert before["placements"][0]["providers"] == ["CPUExecutionProvider"]
        assert {limit["name"] for limit in before["limits"]} >= {"the host's free memory"}
        daemon.ctl("load", "piper")
        forecast = daemon.ctl("load", "vad", "--dry-run")
        assert (forecast["room"], forecast["evicts"]) == ("after_eviction", ["piper"])
        assert list(daemon.ps()) == ["piper"]
        assert daemon.ctl("explain", "piper")["room"] == "resident"
        daemon.ctl("unload", "piper")
        after = daemon.ctl("explain", "piper")
        assert after["estimate_source"] == "measured"
        assert after["estimate_bytes"] < before["estimate_bytes"]


def test_eager_models_load_in_order_as_far_as_there_are_places(tmp_path: Path, models_root: Path) -> None:
    models = [model for model in MODELS if model["id"] in ("vad", "piper")]
    flags = {"lazy_load": False, "max_loaded_models": 1}
    with running_daemon(tmp_path, models_root, models=list(reversed(models)), **flags) as daemon:
        eventually(lambda: daemon.ps().get("vad", {}).get("state") == "ready", what="the first is not loaded")
        eventually(lambda: any("loaded on first use" in record["message"] for record in daemon.log))
        assert list(daemon.ps()) == ["vad"]


def test_a_load_past_its_models_memory_limit_says_so(tmp_path: Path, models_root: Path) -> None:
    models = [{**model, "memory_limit_mb": 40} for model in MODELS if model["id"] == "piper"]
    with running_daemon(tmp_path, models_root, models=models) as daemon, daemon.client() as client:
        reply = speak(client)
        assert reply.status_code == 503
        assert reply.json()["error"]["type"] == "insufficient_memory"
        assert "40 MiB that memory_limit_mb allows" in reply.json()["error"]["message"]
