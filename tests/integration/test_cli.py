"""`audiocppctl` as a person runs it: its own process, a real daemon, real models."""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.integration.daemon_process import COMMANDS, DaemonProcess

from audiocpp.control.protocol import ExitCode

pytestmark = pytest.mark.integration

PS_LIMIT_S = 0.150
RUN_LIMIT_S = 60.0


def run(daemon: DaemonProcess, *arguments: str, stdin: bytes | None = None) -> "subprocess.CompletedProcess[bytes]":
    command = [COMMANDS / "audiocppctl", *arguments, "--socket", daemon.admin_socket]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=RUN_LIMIT_S, check=False)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def test_status_leads_to_the_public_api(daemon: DaemonProcess) -> None:
    status = daemon.ctl("status")
    assert (status["pid"], status["url"]) == (daemon.pid, daemon.url)


def test_ps_answers_at_once(daemon: DaemonProcess) -> None:
    """Three times the limit, which the benchmark measures; less what a slow machine takes to start an interpreter."""
    ps, bare = [], []
    for _ in range(10):
        ps.append(_seconds_of([COMMANDS / "audiocppctl", "ps", "--socket", daemon.admin_socket]))
        bare.append(_seconds_of([sys.executable, "-c", "pass"]))
    assert statistics.median(ps) <= 3 * PS_LIMIT_S + statistics.median(bare)


def _seconds_of(command: Sequence[str | Path]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=RUN_LIMIT_S, check=True)
    return time.perf_counter() - started


def test_a_model_is_loaded_shown_and_unloaded(daemon: DaemonProcess) -> None:
    daemon.ctl("unload", "vad")
    loaded = daemon.ctl("load", "vad")
    assert (loaded["changed"], loaded["state"]) == (True, "ready")
    assert daemon.ctl("load", "vad")["changed"] is False
    assert daemon.ps()["vad"]["resident_bytes"] > 0

    unloaded = daemon.ctl("unload", "vad")
    assert unloaded["unloaded"] == ["vad"]
    assert unloaded["released_bytes"] > 0
    assert daemon.ctl("unload", "vad") == {
        "schema": 1,
        "changed": False,
        "unloaded": [],
        "not_resident": ["vad"],
        "released_bytes": 0,
    }
    assert "vad" not in daemon.ps()


@pytest.mark.parametrize("arguments", [("load", "nothing"), ("unload", "nothing"), ("pull", "nothing")])
def test_what_the_daemon_does_not_know_is_not_found(daemon: DaemonProcess, arguments: tuple[str, ...]) -> None:
    ended = run(daemon, *arguments)
    assert ended.returncode == ExitCode.NOT_FOUND
    assert b"nothing" in ended.stderr


def test_pulling_an_installed_package_changes_nothing(daemon: DaemonProcess) -> None:
    ended = run(daemon, "pull", "silero_vad", "--json")
    last = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.returncode, last["event"], last["changed"]) == (ExitCode.OK, "done", False)


def test_what_is_said_can_be_read_back(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = tmp_path / "said.wav"
    assert run(daemon, "say", "The weather is nice today.", "-o", str(path)).returncode == ExitCode.OK
    from_file = run(daemon, "transcribe", str(path), "--model", "moonshine")
    from_pipe = run(daemon, "transcribe", "-", "--model", "moonshine", stdin=path.read_bytes())
    assert from_file.returncode == ExitCode.OK, from_file.stderr
    # The voice draws its own noise, so a word may be heard wrongly.
    assert len({"the", "weather", "is", "nice", "today"} & set(words(from_file.stdout.decode()))) >= 4
    assert from_pipe.stdout == from_file.stdout


def test_listen_hears_what_is_spoken(daemon: DaemonProcess, audio_files: dict[str, Path]) -> None:
    heard = run(daemon, "listen", str(audio_files["beckett.wav"]), "--pace", "0")
    assert heard.returncode == ExitCode.OK, heard.stderr
    assert "try again fail again" in " ".join(words(heard.stdout.decode()))


def test_listen_with_json_passes_the_events_on(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = tmp_path / "said.wav"
    assert run(daemon, "say", "Good morning.", "-o", str(path)).returncode == ExitCode.OK
    heard = run(daemon, "listen", str(path), "--pace", "0", "--json")
    events = [json.loads(line) for line in heard.stdout.splitlines()]
    assert events[0]["type"] == "session.created"
    assert events[-1]["type"] == "transcript.text.done"
    deltas = [event["delta"] for event in events if event["type"] == "transcript.text.delta"]
    assert "".join(deltas) == events[-1]["text"] != ""


def test_changes_are_logged_with_who_asked(daemon: DaemonProcess) -> None:
    daemon.ctl("load", "nothing", expect=ExitCode.NOT_FOUND)
    changes = [record for record in daemon.log if record.get("target") == "nothing"]
    assert changes
    assert (changes[-1]["verb"], changes[-1]["uid"], changes[-1]["result"]) == ("load", os.getuid(), "model_not_found")
