"""A real package from a real index."""

from pathlib import Path

import pytest
import trio

from audiocpp.daemon.packages import PackageStore, PullProgress
from audiocpp.engines.catalog import Catalog

pytestmark = pytest.mark.integration

TIMEOUT_S = 300


async def test_silero_vad_is_pulled_verified_and_then_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.load()
    store = PackageStore(tmp_path, catalog)
    heard: list[PullProgress] = []
    with trio.fail_after(TIMEOUT_S):
        result = await store.pull("silero_vad", heard.append)
        assert await store.verify("silero_vad") == ()
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        assert (await store.pull("silero_vad", heard.append)).pulled == ()
    assert result.pulled == ("silero_vad",)
    assert set(store.files(*catalog.package("silero_vad"))) == {"sequence", "step"}
    downloaded = max(progress.done_bytes for progress in heard if progress.phase == "verifying")
    assert downloaded == max(file.size_bytes for file in catalog.package("silero_vad")[1].files)
