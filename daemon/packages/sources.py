"""Brings the archives or files that a source names onto this disk."""

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from pathlib import Path

import trio

from audiocpp.daemon.packages.clients import npm_pack, pip_download
from audiocpp.daemon.packages.errors import SourceFailed
from audiocpp.engines.spec import FileSource, NpmSource, PypiSource, SingleSource, Source, parts_of

_WATCH_S = 0.2

Progress = Callable[[int], None]


def archive_key(source: Source) -> Hashable:
    """Equal for sources that one fetch serves."""
    return tuple(map(_key, parts_of(source)))


def archive_bytes(source: Source) -> int:
    """Bytes that fetching adds to the disk, for the time of the pull."""
    return sum(0 if isinstance(part, FileSource) else part.archive_bytes for part in parts_of(source))


def describe(source: Source) -> str:
    return ", ".join(map(_description, parts_of(source)))


async def fetch(source: Source, folder: Path, *, progress: Progress) -> list[Path]:
    """The path of the archive or file of each part of `source`.

    What is downloaded goes into `folder`, which exists and is empty, and belongs to the caller. `progress` is told
    the bytes that have arrived. Raises `SourceFailed`. Cancellation ends the download's process.
    """
    archives, before = [], 0
    for index, part in enumerate(parts_of(source)):
        place = folder / str(index)
        place.mkdir()
        archives.append(await _fetch_part(part, place, partial(_from, before, progress)))
        before += archive_bytes(part)
    return archives


def _from(before: int, progress: Progress, done: int) -> None:
    progress(before + done)


def _key(part: SingleSource) -> Hashable:
    match part:
        case PypiSource():
            return "pypi", part.package, part.version, part.platform
        case NpmSource():
            return "npm", part.package, part.version
        case FileSource():
            return "file", part.path


def _description(part: SingleSource) -> str:
    match part:
        case PypiSource():
            return f"pypi {part.package}=={part.version}"
        case NpmSource():
            return f"npm {part.package}@{part.version}"
        case FileSource():
            return f"file {part.path}"


async def _fetch_part(part: SingleSource, folder: Path, progress: Progress) -> Path:
    match part:
        case PypiSource():
            return await _download(partial(pip_download, part), folder, progress, ending=".whl")
        case NpmSource():
            return await _download(partial(npm_pack, part), folder, progress, ending=".tgz")
        case FileSource():
            return _local_file(part)


def _local_file(source: FileSource) -> Path:
    path = Path(source.path)
    if not path.is_file():
        raise SourceFailed(f"{path} is no file")
    return path


async def _download(
    client: Callable[[Path, Path], Awaitable[str]], folder: Path, progress: Progress, *, ending: str
) -> Path:
    scratch = folder / "scratch"
    scratch.mkdir()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, folder, progress)
        reason = await client(folder, scratch)
        nursery.cancel_scope.cancel()
    if reason:
        raise SourceFailed(reason)
    return _only_archive(folder, ending)


def _only_archive(folder: Path, ending: str) -> Path:
    archives = list(folder.glob(f"*{ending}"))
    if len(archives) != 1:
        raise SourceFailed(f"{len(archives)} files {ending} came where one was asked for")
    return archives[0]


async def _watch(folder: Path, progress: Progress) -> None:
    """Tells how much has arrived, from the size of the largest file: clients move an archive when it is whole."""
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
