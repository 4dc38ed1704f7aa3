"""What a source brings, as members that can be read: a zip archive, a gzipped tar archive, or one plain file."""

import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, Self

from audiocpp.daemon.packages.errors import SourceFailed
from audiocpp.daemon.packages.manifest import BLOCK_BYTES
from audiocpp.engines.spec import NpmSource, SingleSource

_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError)


class Archive:
    """The open archive, or the file, at `path`, which `source` brought. Raises `SourceFailed` for what is unreadable.

    Members are best read in the order in which they lie: going back in a tar archive starts its decompression anew.
    """

    def __init__(self, source: SingleSource, path: Path) -> None:
        self._path = path
        with self._faults():
            self._members = _members(source, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._members.close()

    def read(self, member: str | None) -> Generator[bytes]:
        """The content of `member`, in blocks. None: the file itself. Raises `SourceFailed`."""
        with self._faults():
            try:
                stream = self._members.open(member)
            except KeyError as error:
                raise SourceFailed(f"{self._path.name} has no member {member}") from error
            with stream:
                while block := stream.read(BLOCK_BYTES):
                    yield block

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise SourceFailed(f"{self._path.name} is damaged: {error}") from error
        except OSError as error:
            raise SourceFailed(f"{self._path.name} cannot be read: {error}") from error


class _Members(Protocol):
    def open(self, member: str | None) -> IO[bytes]: ...

    def close(self) -> None: ...


def _members(source: SingleSource, path: Path) -> _Members:
    if source.member is None:
        return _PlainFile(path)
    return _TarMembers(path) if isinstance(source, NpmSource) else _ZipMembers(path)


class _PlainFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, member: str | None) -> IO[bytes]:
        assert member is None
        return self._path.open("rb")

    def close(self) -> None:
        pass


class _ZipMembers:
    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)

    def open(self, member: str | None) -> IO[bytes]:
        return self._zip.open(str(member))

    def close(self) -> None:
        self._zip.close()


class _TarMembers:
    def __init__(self, path: Path) -> None:
        self._tar = tarfile.open(path, "r:gz")  # noqa: SIM115 - closed by `close`

    def open(self, member: str | None) -> IO[bytes]:
        stream = self._tar.extractfile(str(member))
        if stream is None:
            raise KeyError(member)  # a folder
        return stream

    def close(self) -> None:
        self._tar.close()
