"""The record of a completed installation, written last into the package's folder."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from audiocpp.engines.spec import PackageFile, PackageSpec

MANIFEST = ".package.json"
BLOCK_BYTES = 1 << 20


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    package: str
    files: tuple[ManifestFile, ...]


class FileFault(msgspec.Struct, frozen=True, kw_only=True):
    """An installed file that is not what it should be. `got` is "missing", or its sha256."""

    name: str
    expected: str
    got: str


def manifest_of(package: PackageSpec) -> Manifest:
    """What the manifest says once `package` is installed as the spec has it today."""
    files = (ManifestFile(name=file.name, size_bytes=file.size_bytes, sha256=file.sha256) for file in package.files)
    return Manifest(package=package.id, files=tuple(files))


def is_installed(package: PackageSpec, folder: Path) -> bool:
    """Whether `folder` holds `package` as the spec has it today. Looks at sizes, not at contents."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return False
    return manifest == manifest_of(package) and all(has_size(file, folder) for file in package.files)


def has_size(file: PackageFile, folder: Path) -> bool:
    path = folder / file.name
    return path.is_file() and path.stat().st_size == file.size_bytes


def sha256_of(path: Path, *, between_blocks: Callable[[], None]) -> str:
    """Blocks: call it in a thread. `between_blocks` may raise to end it early."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
            between_blocks()
    return digest.hexdigest()
