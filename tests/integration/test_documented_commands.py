"""The commands and the code that the pages print, run as they are printed against a daemon in the same folder."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.daemon_process import COMMANDS, DaemonProcess, running_daemon

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PRINTED_URL = "http://127.0.0.1:8080"
LIMIT_S = 60


def blocks(page: str, mark: str) -> list[str]:
    """Indented blocks of a page that contain `mark`, without their indentation."""
    found = re.findall(r"(?:^    .*\n)+", page, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found if mark in block]


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory, models_root: Path) -> Iterator[DaemonProcess]:
    """A daemon whose working folder is that of the commands."""
    folder = tmp_path_factory.mktemp("documented")
    with running_daemon(folder, models_root, cwd=folder) as daemon:
        yield daemon


@pytest.fixture
def recorded(documented: DaemonProcess) -> DaemonProcess:
    """The same, after the first request of the README has written its recording."""
    shell(documented, blocks(README, "curl ")[0])
    return documented


def environment(daemon: DaemonProcess) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return kept | {"AUDIOCPP_SOCKET": str(daemon.admin_socket)}


def run(daemon: DaemonProcess, *command: str) -> str:
    settings = {"cwd": daemon.folder, "env": environment(daemon), "timeout": LIMIT_S}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def shell(daemon: DaemonProcess, command: str) -> str:
    """Runs the command with the daemon's address and this environment's commands; curl fails on an error status."""
    command = command.replace(PRINTED_URL, daemon.url).replace(".venv/bin", str(COMMANDS))
    return run(daemon, "bash", "-ec", command.replace("curl ", "curl --silent --show-error --fail-with-body "))


@pytest.mark.parametrize("command", blocks(README, "curl ") + blocks(API, "curl "))
def test_a_documented_request_is_answered(recorded: DaemonProcess, command: str) -> None:
    answer = shell(recorded, command)
    if "-o speech.wav" in command:
        assert (recorded.folder / "speech.wav").read_bytes().startswith(b"RIFF")
    else:
        assert '"timing"' in answer


def test_the_first_recording_says_what_its_command_says(recorded: DaemonProcess) -> None:
    answer = shell(recorded, next(block for block in blocks(README, "curl ") if "transcriptions" in block))
    assert "meeting" in answer.lower()
    assert re.search(r"dollars|\$12", answer)


def test_the_documented_openai_client_speaks_and_hears(documented: DaemonProcess) -> None:
    (block,) = blocks(README, "OpenAI(")
    *calls, last = block.replace(PRINTED_URL, documented.url).strip().splitlines()
    program = "\n".join(["from openai import OpenAI", *calls, f"print({last})"])
    assert "hello" in run(documented, sys.executable, "-c", program).lower()


def test_the_documented_verbs_work_in_their_order(documented: DaemonProcess) -> None:
    (block,) = blocks(README, "audiocppctl status")
    assert len(block.splitlines()) >= 6
    shell(documented, block)


def test_a_documented_session_listens_to_the_recording(recorded: DaemonProcess) -> None:
    (block,) = blocks(README, "listen speech.wav")
    assert "meeting" in shell(recorded, block.splitlines()[0]).lower()
