"""What the store says about packages, and where it puts and finds them."""

from pathlib import Path

import pytest
import trio
from tests.fakes.packages import CONTENTS, file_spec, model_spec

from audiocpp.daemon.errors import ModelNotInstalled, NotFound
from audiocpp.daemon.packages import PackageStore, PullProgress
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.spec import Companion

TIMEOUT_S = 30


def silent(_: PullProgress) -> None:
    pass


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    return folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def with_companion(sources: Path) -> Catalog:
    """Family `asr` needs the role `tokens` of package `vad` under the name `voice`."""
    files = file_spec("asr", sources, {"graph.onnx": b"graph"}).packages[0].files
    companions = {"voice": Companion(package="vad", role="tokens")}
    return Catalog.of([file_spec("vad", sources), model_spec("asr", *files, companions=companions)])


def test_nothing_is_installed_in_a_models_root_that_does_not_exist(sources: Path, models: Path) -> None:
    store = PackageStore(models, Catalog.of([file_spec("asr", sources)]))
    assert not store.installed("asr")
    assert [status.installed for status in store.list()] == [False]


async def test_pull_installs_the_companion_too_and_files_are_found_by_role(sources: Path, models: Path) -> None:
    catalog = with_companion(sources)
    store = PackageStore(models, catalog)
    with trio.fail_after(TIMEOUT_S):
        result = await store.pull("asr", silent)
    assert result.pulled == ("vad", "asr")
    files = store.files(*catalog.package("asr"))
    assert {role: path.read_bytes() for role, path in files.items()} == {
        "graph": b"graph",
        "voice": CONTENTS["tokens.txt"],
    }


async def test_a_missing_companion_makes_the_package_not_installed_and_names_the_command(
    sources: Path, models: Path
) -> None:
    catalog = with_companion(sources)
    store = PackageStore(models, catalog)
    with trio.fail_after(TIMEOUT_S):
        await store.pull("asr", silent)
    (models / "vad" / "tokens.txt").unlink()
    assert store.missing_of(*catalog.package("asr")) == ("vad",)
    with pytest.raises(ModelNotInstalled, match=r"vad is not installed.*audiocppctl pull asr$"):
        store.files(*catalog.package("asr"))


async def test_a_file_of_another_size_makes_a_package_not_installed(sources: Path, models: Path) -> None:
    store = PackageStore(models, Catalog.of([file_spec("asr", sources)]))
    with trio.fail_after(TIMEOUT_S):
        await store.pull("asr", silent)
    (models / "asr" / "tokens.txt").write_bytes(b"shorter")
    assert not store.installed("asr")


async def test_a_spec_with_new_contents_makes_the_old_installation_not_installed(sources: Path, models: Path) -> None:
    with trio.fail_after(TIMEOUT_S):
        await PackageStore(models, Catalog.of([file_spec("asr", sources)])).pull("asr", silent)
    renewed = Catalog.of([file_spec("asr", sources, CONTENTS | {"tokens.txt": b"x y z"})])
    assert not PackageStore(models, renewed).installed("asr")


async def test_an_operators_own_folder_takes_the_place_of_the_packages(sources: Path, models: Path) -> None:
    catalog = with_companion(sources)
    store = PackageStore(models, catalog)
    with trio.fail_after(TIMEOUT_S):
        await store.pull("vad", silent)
    files = store.files(*catalog.package("asr"), folder=sources)
    assert files == {"graph": sources / "graph.onnx", "voice": models / "vad" / "tokens.txt"}
    (sources / "graph.onnx").unlink()
    assert store.missing_of(*catalog.package("asr"), folder=sources) == ("asr",)


async def test_verify_finds_a_changed_byte_and_a_missing_file(sources: Path, models: Path) -> None:
    store = PackageStore(models, Catalog.of([file_spec("asr", sources)]))
    with trio.fail_after(TIMEOUT_S):
        await store.pull("asr", silent)
        assert await store.verify("asr") == ()
        (models / "asr" / "tokens.txt").write_bytes(b"a b d")
        (models / "asr" / "weights.onnx").unlink()
        faults = {fault.name: fault for fault in await store.verify("asr")}
    assert faults["weights.onnx"].got == "missing"
    assert faults["tokens.txt"].got != faults["tokens.txt"].expected


async def test_an_unknown_package_is_not_found_and_the_known_ones_are_listed(sources: Path, models: Path) -> None:
    store = PackageStore(models, Catalog.of([file_spec("asr", sources), file_spec("vad", sources)]))
    with pytest.raises(NotFound, match="'nope' is not known; known: asr, vad"):
        await store.pull("nope", silent)
