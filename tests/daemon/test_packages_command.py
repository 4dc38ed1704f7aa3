"""`python -m audiocpp.daemon.packages`."""

import sys
from pathlib import Path

import msgspec
import pytest
import trio
from tests.fakes.packages import CONTENTS, file_spec

from audiocpp.daemon.packages.__main__ import main

TIMEOUT_S = 60


@pytest.fixture
def override(tmp_path: Path) -> Path:
    """A folder of specs with the one family `tiny`, whose files lie beside it."""
    sources = tmp_path / "sources"
    sources.mkdir()
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "tiny.json").write_bytes(msgspec.json.encode(file_spec("tiny", sources)))
    return specs


def arguments(tmp_path: Path, override: Path, package: str = "tiny") -> list[str]:
    return ["pull", package, "--models-root", str(tmp_path / "models"), "--model-spec-override", str(override)]


def test_it_installs_and_says_licence_and_phases(
    tmp_path: Path, override: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, override)) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("tiny: resolving Tiny, MIT, Copyright the authors")
    assert lines[-1].startswith("tiny: complete")
    assert (tmp_path / "models" / "tiny" / "tokens.txt").read_bytes() == CONTENTS["tokens.txt"]


def test_a_failure_is_one_line_and_status_1(tmp_path: Path, override: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path, override, "nope")) == 1
    assert capsys.readouterr().err.startswith("failed: package 'nope' is not known; known: ")


async def test_two_processes_that_pull_at_once_install_once(tmp_path: Path, override: Path) -> None:
    command = [sys.executable, "-m", "audiocpp.daemon.packages", *arguments(tmp_path, override)]
    said: list[str] = []

    async def pull() -> None:
        done = await trio.run_process(command, capture_stderr=True)
        said.append(done.stderr.decode())

    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            nursery.start_soon(pull)
    assert "".join(said).count("tiny: installing") == 1
    assert "".join(said).count("tiny: complete") == 2
