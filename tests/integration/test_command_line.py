"""`audiocppd` as launchers start it: what it prints, what its flags do to a daemon that runs."""

import subprocess
from pathlib import Path

import pytest
from tests.integration.daemon_process import COMMANDS, STOP_LIMIT_S, DaemonProcess, running_daemon

pytestmark = pytest.mark.integration


def printed(*flags: str) -> str:
    done = subprocess.run(
        [COMMANDS / "audiocppd", *flags], capture_output=True, text=True, timeout=STOP_LIMIT_S, check=True
    )
    return done.stdout


def test_the_stop_line_follows_the_ready_line(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root) as daemon:
        daemon.process.terminate()
        assert daemon.process.stdout is not None
        assert daemon.process.stdout.read() == "audiocpp_server stopped\n"
        assert daemon.process.wait(STOP_LIMIT_S) == 0


def test_devices_are_the_same_by_flag_and_by_route(daemon: DaemonProcess) -> None:
    with daemon.client() as client:
        devices = client.get("/v1/devices").json()["data"]
    assert devices
    rows = [f'{row["backend"].upper()}:{row["index"]} "{row["name"]}" [{row["type"]}]' for row in devices]
    assert printed("--list-devices").splitlines()[:-1] == [f"available_devices={len(rows)}", *rows]


@pytest.mark.parametrize("flags", [(), ("--log",), ("--log-file", "more.log")])
def test_bodies_and_load_progress_are_logged_when_a_log_was_asked_for(
    tmp_path: Path, models_root: Path, flags: tuple[str, ...]
) -> None:
    every = ("--load-progress", "1", *flags)
    with running_daemon(tmp_path, models_root, flags=every, cwd=tmp_path, log_request_body=True) as daemon:
        with daemon.client() as client:
            assert client.post("/v1/audio/speech", json={"model": "piper", "input": "Hello."}).status_code == 200
        bodies = [record["body"] for record in daemon.log if "body" in record]
        progress = [record["progress"] for record in daemon.log if record.get("event") == "server.load.progress"]
        warned = [record for record in daemon.log if record["message"].startswith("log_request_body")]
    assert [len(bodies), progress, len(warned)] == ([1, [0.0, 1.0], 0] if flags else [0, [], 1])


def test_health_tells_where_models_in_memory_run(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root) as daemon, daemon.client() as client:
        assert client.get("/health").json()["placements"] == []
        daemon.ctl("load", "vad")
        health = client.get("/health").json()
    assert health["backend"] == "cpu"
    providers = ["CPUExecutionProvider"]
    row = {"model": "vad", "backend": "auto", "device": 0, "requested": providers, "effective": providers}
    assert health["placements"] == [{**row, "as_requested": True}]
