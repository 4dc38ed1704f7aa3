"""Loading, swapping, unloading and memory that other servers of this kind got wrong, as people reported it
(`tests/data/reports.json`).
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from tests.integration.daemon_process import MODELS, DaemonProcess, eventually, running_daemon

pytestmark = pytest.mark.integration

SENTENCE = "The quick brown fox jumps over the lazy dog."
LONG_TEXT = f"{SENTENCE} " * 20
BUSY, FORCED_S = 6, 3 * 2.0
PIPER = next(model for model in MODELS if model["id"] == "piper")
VAD = next(model for model in MODELS if model["id"] == "vad")


def speak(daemon: DaemonProcess, text: str = SENTENCE) -> httpx.Response:
    with daemon.client() as client:
        return client.post("/v1/audio/speech", json={"model": "piper", "input": text})


def segment(daemon: DaemonProcess, path: Path, **fields: Any) -> httpx.Response:
    with daemon.client() as client:
        return client.post("/v1/tasks/run", json={"model": "vad", "audio": str(path), **fields})


def started(pool: ThreadPoolExecutor, daemon: DaemonProcess, text: str) -> "Future[httpx.Response]":
    """A speech request that Piper is working on."""
    reply = pool.submit(speak, daemon, text)
    eventually(lambda: daemon.ps().get("piper", {}).get("active_slots"), limit_s=20, what="the request did not start")
    return reply


@pytest.mark.parametrize(("keep_alive_ms", "stays"), [(0, False), (150, False), (-1, True)])
def test_a_model_stays_as_long_as_it_is_told_and_comes_back(
    tmp_path: Path, models_root: Path, keep_alive_ms: int, stays: bool
) -> None:
    """R58"""
    models = [{**PIPER, "keep_alive_ms": keep_alive_ms}]
    with running_daemon(tmp_path, models_root, models=models) as daemon:
        for _ in range(2):
            assert speak(daemon).status_code == 200
            if stays:
                assert daemon.ps()["piper"]["state"] == "ready"
            else:
                eventually(lambda: not daemon.ps(), what="the model is still resident")
        loads = [record for record in daemon.log if record.get("event") == "loaded"]
        assert len(loads) == (1 if stays else 2)


def test_a_cold_model_is_loaded_once_for_all_who_ask(tmp_path: Path, models_root: Path) -> None:
    """R60"""
    with running_daemon(tmp_path, models_root, models=[PIPER]) as daemon, ThreadPoolExecutor(5) as pool:
        replies = [pool.submit(speak, daemon) for _ in range(4)]
        loaded = pool.submit(daemon.ctl, "load", "piper")
        assert [reply.result().status_code for reply in replies] == [200] * 4
        assert loaded.result()["state"] in ("ready", "busy")
        assert [record.get("event") for record in daemon.log].count("loaded") == 1


def test_a_request_for_another_model_waits_for_a_busy_one(
    tmp_path: Path, models_root: Path, audio_files: dict[str, Path]
) -> None:
    """R62"""
    limits = {"models": [PIPER, VAD], "max_loaded_models": 1}
    with running_daemon(tmp_path, models_root, **limits) as daemon, ThreadPoolExecutor(1) as pool:
        first = started(pool, daemon, LONG_TEXT)
        refusal = segment(daemon, audio_files["beckett.wav"], busy_timeout_ms=50)
        assert refusal.status_code == 503
        assert int(refusal.headers["Retry-After"]) >= 1
        assert not first.done()
        answer = segment(daemon, audio_files["beckett.wav"])
        assert answer.status_code == 200
        assert first.result().status_code == 200
        assert list(daemon.ps()) == ["vad"]


def test_unloading_gives_up_in_time_and_force_ends_what_runs(tmp_path: Path, models_root: Path) -> None:
    """R65"""
    with running_daemon(tmp_path, models_root, models=[PIPER]) as daemon, ThreadPoolExecutor(1) as pool:
        daemon.ctl("load", "piper")
        running = started(pool, daemon, LONG_TEXT * 15)
        daemon.ctl("unload", "piper", "--timeout", "0.2", expect=BUSY)
        assert daemon.ps()["piper"]["active_slots"] == 1
        asked = time.monotonic()
        assert daemon.ctl("unload", "piper", "--force")["changed"]
        assert time.monotonic() - asked < FORCED_S
        reply = running.result()
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "worker_died")
        assert "unloaded" in reply.json()["error"]["message"]
        assert daemon.ps() == {}
        assert speak(daemon).status_code == 200


def test_memory_does_not_follow_the_length_of_a_recording(
    tmp_path: Path, models_root: Path, audio_files: dict[str, Path]
) -> None:
    """R74: beyond the few minutes that fill a batch with the longest pieces, memory does not grow."""
    samples, rate_hz = soundfile.read(audio_files["two_cities.wav"], dtype="int16")
    for name, times in (("three", 4), ("ten", 14)):
        soundfile.write(tmp_path / f"{name}.wav", np.tile(samples, times), rate_hz, subtype="PCM_16")
    models = [model for model in MODELS if model["id"] == "moonshine"]
    with running_daemon(tmp_path, models_root, models=models) as daemon, daemon.client() as client:

        def peak_after(name: str) -> int:
            answer = client.post("/v1/audio/transcriptions", json={"audio": str(tmp_path / f"{name}.wav")})
            assert answer.status_code == 200, answer.text
            return int(daemon.ps()["moonshine"]["peak_bytes"])

        three = peak_after("three")
        assert peak_after("ten") <= 1.25 * three
