"""Cache and state folders on a file system that is full: what is kept there is done without, and said once."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.daemon_process import DaemonProcess, eventually, running_daemon
from tests.integration.sampling import healthy
from tests.integration.small_disk import SmallDisk, small_disk

pytestmark = pytest.mark.integration

MIB = 1 << 20


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[SmallDisk]:
    """Where a daemon in `tmp_path` keeps its cache: too small for a voice's graph or a recording of 4 MB."""
    with small_disk(tmp_path / "cache", mib=2) as disk:
        yield disk


@pytest.fixture
def state(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "state", mib=1) as disk:
        yield disk


def speak(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/audio/speech", json={"model": "piper", "input": "Hello there."})


def transcribe(client: httpx.Client, path: Path) -> httpx.Response:
    with path.open("rb") as file:
        return client.post("/v1/audio/transcriptions", data={"model": "moonshine"}, files={"file": file})


def uploads(disk: SmallDisk) -> list[str]:
    return [name for name in disk.files() if name.startswith("upload")]


def warnings(daemon: DaemonProcess) -> list[str]:
    return [record["message"] for record in daemon.log if record["level"] in ("warning", "error")]


def test_a_full_cache_costs_the_optimised_graphs_and_one_line(
    cache: SmallDisk, tmp_path: Path, models_root: Path
) -> None:
    with running_daemon(tmp_path, models_root) as daemon, daemon.client() as client:
        for fill in (False, True):  # a voice's graph does not fit; then not even a note does
            if fill:
                cache.fill()
            with healthy(daemon):
                assert speak(client).status_code == 200
                daemon.ctl("unload", "piper")
        (warning,) = warnings(daemon)
        assert "graphs are optimised at each load" in warning
        assert [name for name in cache.files() if not name.endswith(".sha256")] == []


def test_a_full_state_folder_costs_the_measurements_and_one_line(
    state: SmallDisk, tmp_path: Path, models_root: Path
) -> None:
    with running_daemon(tmp_path, models_root) as daemon:
        daemon.ctl("load", "vad")
    kept = tmp_path / "state" / "audiocpp" / "memory.json"
    before = kept.read_bytes()
    state.fill()
    with running_daemon(tmp_path, models_root) as daemon, daemon.client() as client, healthy(daemon):
        for _ in range(2):
            assert speak(client).status_code == 200
            daemon.ctl("unload", "piper")
        assert daemon.ctl("explain", "piper")["estimate_source"] == "measured"
        assert daemon.ctl("explain", "vad")["estimate_source"] == "measured"
        assert [line for line in warnings(daemon) if "measured memory is not kept" in line] == warnings(daemon)
        assert len(warnings(daemon)) == 1
    assert state.files() == ["memory.json"]
    assert kept.read_bytes() == before
    state.empty()
    with running_daemon(tmp_path, models_root) as daemon:
        daemon.ctl("load", "piper")
    assert len(json.loads(kept.read_bytes())["models"]) == 2


def test_an_upload_that_does_not_fit_is_told_the_figures(
    cache: SmallDisk, tmp_path: Path, models_root: Path, audio_files: dict[str, Path]
) -> None:
    large, small = audio_files["two_cities.wav"], audio_files["beckett.wav"]
    with running_daemon(tmp_path, models_root) as daemon, daemon.client() as client:
        with healthy(daemon):
            for _ in range(3):
                reply = transcribe(client, large)
                assert reply.status_code == 503
                assert reply.headers["Retry-After"]
                error = reply.json()["error"]
                assert error["code"] == "server_busy"
                assert "bytes free" in error["message"]
                assert str(tmp_path) not in error["message"], "a client learns where the server keeps its files"
        assert [line for line in warnings(daemon) if "stored" in line] == warnings(daemon)
        assert len(warnings(daemon)) == 1
        eventually(lambda: not uploads(cache), what="an upload is still there")
        assert transcribe(client, small).status_code == 200, "what fits into memory needs no disk"
        cache.remount("size=64m")
        assert transcribe(client, large).status_code == 200
        eventually(lambda: not uploads(cache), what="an upload is still there")


@pytest.mark.parametrize("fault", ["ro", "nr_inodes=1"], ids=["read-only", "no file can be made"])
def test_a_cache_that_takes_no_file_costs_large_uploads_only(
    cache: SmallDisk, tmp_path: Path, models_root: Path, audio_files: dict[str, Path], fault: str
) -> None:
    spool = tmp_path / "cache" / "audiocpp" / "spool"
    spool.mkdir(parents=True)
    (spool / "upload-left").write_bytes(b"of a daemon that was killed")
    if fault == "ro":
        cache.remount(fault)
    with running_daemon(tmp_path, models_root) as daemon, daemon.client() as client:
        if fault != "ro":
            cache.remount(f"nr_inodes={len(list(cache.folder.rglob('*'))) + 1}")
        reply = transcribe(client, audio_files["two_cities.wav"])
        assert reply.status_code == 503
        assert reply.json()["error"]["message"].startswith("the upload cannot be stored: ")
        assert transcribe(client, audio_files["beckett.wav"]).status_code == 200
        assert speak(client).status_code == 200
        cache.remount("rw,size=64m,nr_inodes=1000")
        assert transcribe(client, audio_files["two_cities.wav"]).status_code == 200


def test_a_write_that_fails_half_way_is_a_refusal_and_leaves_nothing(
    daemon: DaemonProcess, audio_files: dict[str, Path]
) -> None:
    hard_limit = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)[1]
    before = daemon.footprint()
    with daemon.client() as client:
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (2 * MIB, hard_limit))
        try:
            reply = transcribe(client, audio_files["two_cities.wav"])
        finally:
            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (hard_limit, hard_limit))
        assert reply.status_code == 503
        assert reply.json()["error"]["message"] == "the upload cannot be stored: File too large"
        eventually(lambda: daemon.footprint().uploads == before.uploads, what="the upload is still there")
        assert transcribe(client, audio_files["two_cities.wav"]).status_code == 200
