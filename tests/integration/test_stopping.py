"""What ends the daemon, and that it goes quietly: no error in the log, no traceback, no process left."""

import os
import signal
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
        if when == "while it starts":
            eventually(lambda: children_of(process.pid), what="the fork server was not started")
        else:
            assert "listening on" in process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        status = process.wait(STOP_LIMIT_S)
        assert "Traceback" not in process.stderr.read()
        assert status == (130 if when == "while it starts" else 0)
