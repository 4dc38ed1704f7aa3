"""Optimised graphs kept in the cache folder. Knows files and keys, no runtime.

The cache is a convenience: whatever is wrong with it costs time, never a model.
"""

import hashlib
import logging
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from audiocpp.engines.whole_files import remove_left_over, replacing

log = logging.getLogger(__name__)


class CacheUnusable(Exception):
    """The cache cannot be used for a graph. The message says why."""


class GraphCache:
    """A folder of optimised graphs. Several processes may use it at once: entries appear whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, source: Path, variant: str, build: Callable[[Path], None]) -> Path:
        """The entry of `source` for `variant`, built first when it is not there.

        `variant` says what else the result depends on: the runtime, its version and options. The file's content and
        the kind of processor belong to the key as well. Raises `CacheUnusable`; what `build` raises is passed on.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            entry = self._entry(source, variant)
            if not entry.is_file():
                remove_left_over(self._folder)
                self._check_space(source)
                with replacing(entry) as temporary:
                    build(temporary)
                self._drop_stale(entry)
        except OSError as error:
            raise CacheUnusable(f"{self._folder}: {error.strerror}") from error
        return entry

    def drop(self, entry: Path) -> None:
        """Removes an entry that turned out damaged."""
        try:
            entry.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed: %s", entry, error)

    def _check_space(self, source: Path) -> None:
        """An optimised graph is about as large as its source. Found out after it was made, that costs a load."""
        free, wanted = shutil.disk_usage(self._folder).free, source.stat().st_size
        if free < wanted:
            raise CacheUnusable(f"{self._folder} has {free >> 20} MiB free, {source.name} takes {wanted >> 20} MiB")

    def _entry(self, source: Path, variant: str) -> Path:
        place = _short_hash(str(source.resolve()))
        content = self._digest(source, place)
        return self._folder / f"{source.stem}-{place}-{_short_hash(content, variant, _cpu_type())}.ort"

    def _digest(self, source: Path, place: str) -> str:
        """The file's SHA-256, computed once: it is remembered with the size and times that it was computed for."""
        facts = source.stat()
        stamp = f"{facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_ino}"
        note = self._folder / f"{source.stem}-{place}.sha256"
        if note.is_file():
            known, _, digest = note.read_text(errors="replace").partition("\n")
            if known == stamp and len(digest) == 64:
                return digest
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with replacing(note) as temporary:
            temporary.write_text(f"{stamp}\n{digest}")
        return digest

    def _drop_stale(self, entry: Path) -> None:
        """Entries of the same file for another content, runtime or processor are of no more use."""
        family = entry.name.rsplit("-", 1)[0]
        for other in self._folder.glob(f"{family}-*.ort"):
            if other != entry:
                other.unlink(missing_ok=True)


def _short_hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _cpu_type() -> str:
    """What the optimiser's choice of kernels depends on: the architecture and its extensions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {features}"
