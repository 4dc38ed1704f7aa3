"""The models, recordings and texts that the benches use, pulled once into the checkout."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jiwer
import trio

from audiocpp.daemon.packages import PackageStore
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.host import read_host
from audiocpp.engines.placement import choose_placement
from bench.companion import CHECKOUT

PACKAGES = ("moonshine_tiny_en", "silero_vad", "piper_en_us_joe_medium")
_TESTS_DATA = CHECKOUT / "tests" / "data"

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Please schedule the meeting for tomorrow morning, and send me a short summary before lunch.",
    "The harbour was quiet, and a single lamp burned in the window of the old house.",
    "Nobody remembered who had planted the apple trees along the road.",
    "It was the best of times, it was the worst of times.",
)
"""Spoken by the benches: plain words, which every reader of text reads alike."""


@dataclass(frozen=True, slots=True)
class Material:
    """`recordings` by name without the ending, such as `two_cities`."""

    models: PackageStore
    catalog: Catalog
    recordings: dict[str, Path]

    def load_arguments(self, package_id: str) -> dict[str, Any]:
        """What `bare_engine` needs to load a package as the daemon would: `family`, `files` and `threads`."""
        spec, package = self.catalog.package(package_id)
        placement = choose_placement(spec, package, read_host(), wanted="cpu").placements[0]
        files = self.models.files(spec, package)
        return {
            "family": spec.family,
            "files": {role: str(path) for role, path in files.items()},
            "threads": placement.threads,
        }


def pull_material() -> Material:
    """Pulls what is missing. Raises `PullError`."""
    catalog = Catalog.load()
    pulled = PackageStore(Path(os.environ.get("AUDIOCPP_MODELS_ROOT") or CHECKOUT / ".models"), catalog)
    models = PackageStore(CHECKOUT / ".cache" / "bench" / "models", catalog)
    recordings = Catalog.load(_TESTS_DATA / "test_audio.json")
    audio = PackageStore(CHECKOUT / ".cache", recordings)

    async def pull_all() -> None:
        for package_id in PACKAGES:
            await pulled.pull(package_id, lambda _: None)
        await audio.pull("test_audio", lambda _: None)

    trio.run(pull_all)
    _copy_models(pulled, models)
    return Material(models, catalog, audio.files(*recordings.package("test_audio")))


def _copy_models(pulled: PackageStore, models: PackageStore) -> None:
    """Weights are mapped files: pages that another program on this machine maps too would not count as private."""
    for package_id in PACKAGES:
        if not models.installed(package_id):
            folder = Path(next(status.directory for status in pulled.list() if status.id == package_id))
            shutil.copytree(folder, models.models_root / folder.name, dirs_exist_ok=True)


def word_error_rate(passage: str, text: str) -> float:
    """Word errors of a transcript against the published text of `tests/data/passages`, case and marks aside."""
    return words_apart((_TESTS_DATA / "passages" / f"{passage}.txt").read_text(), text)


def words_apart(reference: str, text: str) -> float:
    """Word errors of a text against another, case and marks aside."""
    return jiwer.wer(_words(reference), _words(text))


def _words(text: str) -> str:
    return " ".join(re.findall(r"[\w']+", text.casefold()))
