"""The packages below one models root."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from audiocpp.daemon.errors import DaemonError, ModelNotInstalled, NotFound
from audiocpp.daemon.packages.manifest import FileFault, is_installed, sha256_of
from audiocpp.daemon.packages.progress import Listener, PullProgress, PullResult
from audiocpp.daemon.packages.pull import PackagePull
from audiocpp.daemon.packages.shared import SharedPull
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.errors import SpecError
from audiocpp.engines.spec import ModelSpec, PackageSpec


class PackageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A package of the catalog and whether it is here. `directory` is where it lies or would lie."""

    id: str
    family: str
    display_name: str
    installed: bool
    default: bool
    size_bytes: int
    license: str
    languages: tuple[str, ...]
    voices: tuple[str, ...]
    requires: tuple[str, ...]
    directory: str


def free_bytes_of(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class PackageStore:
    """What of `catalog` is installed below `models_root`, and the way to install the rest.

    The models root need not exist until the first pull. `free_bytes` says how much room a folder's disk has.
    """

    def __init__(
        self, models_root: Path, catalog: Catalog, *, free_bytes: Callable[[Path], int] = free_bytes_of
    ) -> None:
        self._root = models_root
        self._catalog = catalog
        self._free_bytes = free_bytes
        self._running: dict[str, SharedPull] = {}

    @property
    def models_root(self) -> Path:
        return self._root

    def directory(self, package: PackageSpec) -> Path:
        return self._root / package.target_directory

    def installed(self, package_id: str) -> bool:
        """Looks at the manifest and at sizes only. Raises `NotFound` for an unknown package."""
        return self._is_installed(self._find(package_id)[1])

    def missing_of(self, spec: ModelSpec, package: PackageSpec, *, folder: Path | None = None) -> tuple[str, ...]:
        """Ids of the packages that `package` needs, itself included, and that are not installed.

        With `folder` the package's own files are looked for there, by name.
        """
        here = self._is_installed(package) if folder is None else _has_files(package, folder)
        missing = [each.id for each in self._catalog.companions(spec) if not self._is_installed(each)]
        return (*missing, *(() if here else (package.id,)))

    def files(
        self, spec: ModelSpec, package: PackageSpec, *, backend: str = "cpu", folder: Path | None = None
    ) -> dict[str, Path]:
        """Role -> file for everything that a model of `package` loads on `backend`, companions' files included.

        Raises `ModelNotInstalled` when one of the packages is missing.
        """
        if missing := self.missing_of(spec, package, folder=folder):
            raise ModelNotInstalled(f"{', '.join(missing)} is not installed; run: audiocppctl pull {package.id}")
        files = _roles(package, backend, folder or self.directory(package))
        for role, companion in spec.companions.items():
            other = self._catalog.package(companion.package)[1]
            files[role] = _roles(other, backend, self.directory(other))[companion.role]
        return files

    def list(self) -> tuple[PackageStatus, ...]:
        return tuple(self._status(spec, package) for spec, package in self._catalog.packages())

    async def verify(self, package_id: str) -> tuple[FileFault, ...]:
        """Reads every file of an installed package and returns those whose sha256 is not the declared one."""
        package = self._find(package_id)[1]
        return await trio.to_thread.run_sync(self._faults, package)

    async def pull(self, package_id: str, progress: Listener) -> PullResult:
        """Installs a package after its companions, unless they are here.

        A second pull of the same package joins the one in progress. Cancelling it leaves nothing behind; when others
        have joined, one of them goes on.

        Raises:
            NotFound: unknown package; the message lists the known ones.
            PullError: see there and its subclasses.
        """
        spec, package = self._find(package_id)
        pulled: list[str] = []
        for companion in self._catalog.companions(spec):
            pulled += (await self.pull(companion.id, progress)).pulled
        own = await self._pull_shared(package, progress)
        return msgspec.structs.replace(own, pulled=(*pulled, *own.pulled))

    async def _pull_shared(self, package: PackageSpec, progress: Listener) -> PullResult:
        while (running := self._running.get(package.id)) is not None:
            if (result := await running.joined(progress)) is not None:
                return result
        shared = self._running[package.id] = SharedPull()
        outcome: PullResult | DaemonError | None = None
        try:
            with shared.heard_by(progress):
                outcome = await self._pull_one(package, shared.report)
                return outcome
        except DaemonError as error:
            outcome = error
            raise
        finally:
            del self._running[package.id]
            shared.end(outcome)

    async def _pull_one(self, package: PackageSpec, progress: Listener) -> PullResult:
        progress(_first_message(package))
        changed = False
        if not self._is_installed(package):
            pull = PackagePull(package, self._root, progress=progress, free_bytes=self._free_bytes)
            changed = await pull.run()
        size = package.size_bytes
        progress(PullProgress(package=package.id, phase="complete", done_bytes=size, total_bytes=size))
        return PullResult(
            package=package.id,
            directory=str(self.directory(package)),
            size_bytes=size,
            pulled=(package.id,) if changed else (),
        )

    def _find(self, package_id: str) -> tuple[ModelSpec, PackageSpec]:
        try:
            return self._catalog.package(package_id)
        except SpecError as error:
            raise NotFound(error.message, param="package") from error

    def _is_installed(self, package: PackageSpec) -> bool:
        return is_installed(package, self.directory(package))

    def _status(self, spec: ModelSpec, package: PackageSpec) -> PackageStatus:
        return PackageStatus(
            id=package.id,
            family=spec.family,
            display_name=package.display_name,
            installed=self._is_installed(package),
            default=package.default,
            size_bytes=package.size_bytes,
            license=package.license.spdx,
            languages=package.languages,
            voices=package.voices,
            requires=tuple(companion.id for companion in self._catalog.companions(spec)),
            directory=str(self.directory(package)),
        )

    def _faults(self, package: PackageSpec) -> tuple[FileFault, ...]:
        folder = self.directory(package)
        faults = []
        for file in package.files:
            path = folder / file.name
            check = trio.from_thread.check_cancelled
            got = sha256_of(path, between_blocks=check) if path.is_file() else "missing"
            if got != file.sha256:
                faults.append(FileFault(name=file.name, expected=file.sha256, got=got))
        return tuple(faults)


def _roles(package: PackageSpec, backend: str, folder: Path) -> dict[str, Path]:
    return {file.role: folder / file.name for file in package.files if backend in file.providers}


def _has_files(package: PackageSpec, folder: Path) -> bool:
    return all((folder / file.name).is_file() for file in package.files)


def _first_message(package: PackageSpec) -> PullProgress:
    return PullProgress(
        package=package.id,
        phase="resolving",
        message=package.display_name,
        total_bytes=package.size_bytes,
        license=package.license.spdx,
        attribution=package.license.attribution,
        license_note=package.license.note,
    )
