"""Writes a package's file from the archives that hold it, checking it on the way. Runs in threads."""

import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

from audiocpp.daemon.packages.archives import Archive
from audiocpp.daemon.packages.errors import WrongContent
from audiocpp.engines.spec import PackageFile, Source, parts_of


def unpack(
    file: PackageFile, source: Source, archives: Sequence[Archive], *, folder: Path, progress: Callable[[int], None]
) -> None:
    """Writes `folder / file.name` from `archives`, one for each part of `source`. Nothing else is written.

    `progress` is told the bytes done after each block and may raise to end the copy.

    Raises:
        SourceFailed: an archive is damaged, unreadable or lacks the member.
        WrongContent: size or sha256 is not the declared one. What was written has to be removed by the caller.
    """
    destination = folder / file.name
    destination.parent.mkdir(parents=True, exist_ok=True)
    with closing(_blocks(source, archives)) as blocks, destination.open("wb") as output:
        digest = hashlib.sha256()
        size = 0
        for block in blocks:
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


def _blocks(source: Source, archives: Sequence[Archive]) -> Generator[bytes]:
    for part, archive in zip(parts_of(source), archives, strict=True):
        yield from archive.read(part.member)
