"""Brings the archive or file that a source names onto this disk. One function per kind of source."""

import os
import sys
from collections.abc import Callable, Hashable
from pathlib import Path

import trio

from audiocpp.daemon.packages.errors import SourceFailed
from audiocpp.engines.spec import FileSource, PypiSource, Source

_WATCH_S = 0.2
_MAX_REASON_CHARS = 300


def archive_key(source: Source) -> Hashable:
    """Equal for sources that one fetch serves."""
    if isinstance(source, PypiSource):
        return source.package, source.version, source.platform
    return source.path


def archive_bytes(source: Source) -> int:
    """Bytes that fetching adds to the disk, for the time of the pull."""
    return source.archive_bytes if isinstance(source, PypiSource) else 0


def describe(source: Source) -> str:
    if isinstance(source, PypiSource):
        return f"pypi {source.package}=={source.version}"
    return f"file {source.path}"


async def fetch(source: Source, folder: Path, *, progress: Callable[[int], None]) -> Path:
    """The path of the archive or file that `source` names.

    What is downloaded goes into `folder`, which exists and is empty, and belongs to the caller. `progress` is told
    the bytes that have arrived. Raises `SourceFailed`. Cancellation ends the download's process.
    """
    if isinstance(source, PypiSource):
        return await _download_wheel(source, folder, progress)
    return _local_file(source)


def _local_file(source: FileSource) -> Path:
    path = Path(source.path)
    if not path.is_file():
        raise SourceFailed(f"{path} is no file")
    return path


async def _download_wheel(source: PypiSource, folder: Path, progress: Callable[[int], None]) -> Path:
    scratch = folder / "scratch"
    scratch.mkdir()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, folder, progress)
        returncode, words = await _run_pip(source, folder, scratch)
        nursery.cancel_scope.cancel()
    if returncode != 0:
        raise SourceFailed(pip_reason(words))
    return _only_wheel(folder)


def _only_wheel(folder: Path) -> Path:
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceFailed(f"pip left {len(wheels)} wheels where one was asked for")
    return wheels[0]


async def _run_pip(source: PypiSource, folder: Path, scratch: Path) -> tuple[int, str]:
    """pip as its own process, so that its mirrors, proxies and credentials apply, and it can be ended at any time."""
    requirement = f"{source.package}=={source.version}"
    target = ["--platform", source.platform, "--python-version", "3.11", "--implementation", "cp"]
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--quiet", "--retries", "2", "download", *options, *target]
    environment = os.environ | {"TMPDIR": str(scratch)}
    try:
        done = await trio.run_process(
            [*pip, "--dest", str(folder), requirement],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=environment,
        )
    except OSError as error:
        return 127, f"ERROR: {sys.executable}: {error.strerror}"
    return done.returncode, done.stderr.decode(errors="replace")


def pip_reason(words: str) -> str:
    """pip's complaints in one line."""
    if "No module named pip" in words:
        return f"pip is not installed for {sys.executable}"
    lines = words.strip().splitlines() or ["pip failed without a word"]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reasons = ["the package index cannot be reached"] if "WARNING: Retrying" in words else []
    reasons.append((errors or lines)[-1])
    return "; ".join(reasons)[:_MAX_REASON_CHARS]


async def _watch(folder: Path, progress: Callable[[int], None]) -> None:
    """Tells how much has arrived, from the size of the largest file: pip moves the wheel when it is whole."""
    told = 0
    while True:
        await trio.sleep(_WATCH_S)
        arrived = _largest_bytes(folder)
        if arrived > told:
            progress(arrived)
            told = arrived


def _largest_bytes(folder: Path) -> int:
    return max(map(_size, folder.rglob("*")), default=0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # moved between the listing and the look
        return 0
