"""Copies a package's file out of an archive or a folder, checking it on the way. Runs in threads."""

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from audiocpp.daemon.packages.errors import SourceFailed, WrongContent
from audiocpp.daemon.packages.manifest import BLOCK_BYTES
from audiocpp.engines.spec import PackageFile, Source


def unpack(file: PackageFile, source: Source, archive: Path, *, folder: Path, progress: Callable[[int], None]) -> None:
    """Writes `folder / file.name` from what `fetch` returned for `source`. Nothing else is written.

    `progress` is told the bytes done after each block and may raise to end the copy.

    Raises:
        SourceFailed: the archive is damaged, unreadable or lacks the member.
        WrongContent: size or sha256 is not the declared one. What was written has to be removed by the caller.
    """
    destination = folder / file.name
    destination.parent.mkdir(parents=True, exist_ok=True)
    with _opened(source, archive) as stream, destination.open("wb") as output:
        digest = hashlib.sha256()
        size = 0
        while block := _read(stream, archive):
            size += len(block)
            if size > file.size_bytes:
                raise WrongContent(f"{file.name}: longer than the expected {file.size_bytes} bytes")
            digest.update(block)
            output.write(block)
            progress(size)
        output.flush()
        os.fsync(output.fileno())
    if size != file.size_bytes:
        raise WrongContent(f"{file.name}: expected {file.size_bytes} bytes, got {size}")
    if digest.hexdigest() != file.sha256:
        raise WrongContent(f"{file.name}: expected sha256 {file.sha256}, got {digest.hexdigest()}")


@contextmanager
def _opened(source: Source, archive: Path) -> Iterator[IO[bytes]]:
    if source.member is None:
        with archive.open("rb") as stream:
            yield stream
        return
    try:
        bundle = zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceFailed(f"{archive.name} is damaged: {error}") from error
    with bundle:
        try:
            member = bundle.open(source.member)
        except KeyError as error:
            raise SourceFailed(f"{archive.name} has no member {source.member}") from error
        except zipfile.BadZipFile as error:
            raise SourceFailed(f"{archive.name} is damaged: {error}") from error
        with member:
            yield member


def _read(stream: IO[bytes], archive: Path) -> bytes:
    try:
        return stream.read(BLOCK_BYTES)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SourceFailed(f"{archive.name} is damaged: {error}") from error
