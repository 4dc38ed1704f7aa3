"""What ends the daemon or keeps it from starting, and that it goes quietly: no traceback, no process left."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.integration.daemon_process import COMMANDS, STOP_LIMIT_S, children_of, eventually, running_daemon

pytestmark = pytest.mark.integration


def test_stopping_with_resident_models_is_no_error(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root) as daemon:
        daemon.ctl("load", "vad")
        children = daemon.children()
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(STOP_LIMIT_S) == 0
        assert [record for record in daemon.log if record["level"] in ("warning", "error")] == []
        assert children
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), what=f"left: {children}")


def test_a_hang_up_ends_nothing(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root) as daemon, daemon.client() as client:
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: any("SIGHUP" in record["message"] for record in daemon.log))
        assert client.get("/health").status_code == 200


def test_a_port_in_use_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text('{"lazy_load": true, "models": [{"id": "vad", "family": "silero_vad"}]}')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [COMMANDS / "audiocppd", "--config", "server.json", "--port", str(port), "--admin-socket", "a.sock"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=STOP_LIMIT_S, check=False)
    assert done.returncode == 1
    assert done.stderr == f"audiocpp_server failed: 127.0.0.1:{port} is in use by another process\n"


@pytest.mark.parametrize("when", ["while it starts", "when it serves"])
def test_ctrl_c_in_a_terminal_prints_no_traceback(tmp_path: Path, when: str) -> None:
    (tmp_path / "server.json").write_text('{"lazy_load": true, "models": [{"id": "vad", "family": "silero_vad"}]}')
    command = [COMMANDS / "audiocppd", "--config", "server.json", "--port", "0", "--admin-socket", "admin.sock"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            if when == "while it starts":
                eventually(lambda: children_of(process.pid), what="the fork server was not started")
            else:
                assert "listening on" in process.stdout.readline()
            os.killpg(process.pid, signal.SIGINT)
            status = process.wait(STOP_LIMIT_S)
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()  # one that did not end must not be waited for
        assert status == (130 if when == "while it starts" else 0)
