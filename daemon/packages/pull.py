"""One pull of one package: find what is missing, fetch it, check it, and put all of it in place at once."""

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import trio

from audiocpp.daemon.packages.archives import Archive
from audiocpp.daemon.packages.errors import NoSpace, PullError, SourceFailed, WrongContent
from audiocpp.daemon.packages.locks import package_lock
from audiocpp.daemon.packages.manifest import MANIFEST, has_size, is_installed, manifest_of, sha256_of
from audiocpp.daemon.packages.progress import Listener, Phase, PullProgress
from audiocpp.daemon.packages.sources import archive_bytes, archive_key, describe, fetch
from audiocpp.daemon.packages.unpack import unpack
from audiocpp.engines.spec import PackageFile, PackageSpec, Source, parts_of
from audiocpp.engines.whole_files import try_lock

_PULLS = ".pulls"


class PackagePull:
    """Installs `package` into its folder below `models_root`.

    Everything is prepared in `.pulls/<id>` of the models root, which is removed however the pull ends. The package
    counts as installed when its folder has a manifest, and the folder gets into place by one rename.
    """

    def __init__(
        self, package: PackageSpec, models_root: Path, *, progress: Listener, free_bytes: Callable[[Path], int]
    ) -> None:
        self._package = package
        self._root = models_root
        self._target = models_root / package.target_directory
        self._pulls = models_root / _PULLS
        self._work = self._pulls / package.id
        self._progress = progress
        self._free_bytes = free_bytes

    async def run(self) -> bool:
        """False when another process installed the package while this pull waited for it. Raises `PullError`."""
        try:
            self._pulls.mkdir(parents=True, exist_ok=True)
            async with package_lock(self._pulls / f"{self._package.id}.lock", waiting=self._say_waiting):
                if is_installed(self._package, self._target):
                    return False
                await trio.to_thread.run_sync(self._remove_dead_pulls)
                try:
                    await self._install()
                finally:
                    shutil.rmtree(self._work, ignore_errors=True)
        except OSError as error:
            kind = NoSpace if error.errno == errno.ENOSPC else PullError
            raise kind(f"{self._package.id}: {error.filename or self._root}: {error.strerror or error}") from error
        return True

    def _say(self, phase: Phase, message: str = "", *, file: str = "", done: int = 0, total: int = 0) -> None:
        self._progress(
            PullProgress(
                package=self._package.id, phase=phase, message=message, file=file, done_bytes=done, total_bytes=total
            )
        )

    def _say_waiting(self) -> None:
        self._say("resolving", "another process pulls this package; waiting for it")

    def _remove_dead_pulls(self) -> None:
        """Removes what killed pulls have left. A pull that is alive holds its lock."""
        shutil.rmtree(self._work, ignore_errors=True)
        for folder in self._pulls.iterdir():
            if folder.is_dir() and folder != self._work:
                with (self._pulls / f"{folder.name}.lock").open("ab") as lock:
                    if try_lock(lock):
                        shutil.rmtree(folder, ignore_errors=True)

    async def _install(self) -> None:
        ready = self._work / "ready"
        ready.mkdir(parents=True)
        kept = await trio.to_thread.run_sync(self._keep_complete, ready)
        missing = [file for file in self._package.files if file.name not in kept]
        self._check_space(missing)
        await self._fetch_all(missing, ready)
        self._say("installing", f"into {self._target}")
        self._put_in_place(ready)

    def _keep_complete(self, ready: Path) -> set[str]:
        """Links the right files of a former installation into `ready` and returns their names."""
        kept = set()
        for file in self._package.files:
            path = self._target / file.name
            if has_size(file, self._target) and _sha256(path) == file.sha256:
                (ready / file.name).parent.mkdir(parents=True, exist_ok=True)
                (ready / file.name).hardlink_to(path)
                kept.add(file.name)
        return kept

    def _check_space(self, missing: Sequence[PackageFile]) -> None:
        """The clients hold an archive twice for a moment; later one copy lies beside the unpacked files."""
        archive = max((archive_bytes(source) for file in missing for source in file.sources), default=0)
        needed = archive + max(archive, sum(file.size_bytes for file in missing))
        available = self._free_bytes(self._root)
        if needed > available:
            raise NoSpace(f"{self._package.id}: needs {needed} bytes below {self._root}, {available} are available")

    async def _fetch_all(self, missing: Sequence[PackageFile], ready: Path) -> None:
        """Tries each file's sources in order; files whose present source is the same archive share one fetch."""
        waiting = {file.name: list(file.sources) for file in missing}
        files = {file.name: file for file in missing}
        tried: list[str] = []
        while waiting:
            source = next(iter(waiting.values()))[0]
            group = [files[name] for name, left in waiting.items() if archive_key(left[0]) == archive_key(source)]
            failures = await self._fetch_group(group, [waiting[file.name][0] for file in group], ready)
            for file in group:
                failure = failures.get(file.name)
                if failure is None:
                    del waiting[file.name]
                    continue
                tried.append(f"{describe(waiting[file.name].pop(0))}: {failure}")
                if not waiting[file.name]:
                    raise self._given_up(file, failure, tried)

    def _given_up(self, file: PackageFile, failure: Exception, tried: Sequence[str]) -> PullError:
        kind = WrongContent if isinstance(failure, WrongContent) else PullError
        return kind(f"{self._package.id}: {file.name} could not be had; tried {'; '.join(dict.fromkeys(tried))}")

    async def _fetch_group(
        self, group: Sequence[PackageFile], sources: Sequence[Source], ready: Path
    ) -> dict[str, SourceFailed | WrongContent]:
        """Fetches what `sources` share and unpacks the files of `group`. Returns those it did not give, with why."""
        download = self._work / "download"
        download.mkdir()
        name, total = describe(sources[0]), archive_bytes(sources[0])
        self._say("downloading", name, total=total)
        try:
            paths = await fetch(
                sources[0],
                download,
                progress=lambda done: self._say("downloading", name, done=min(done, total), total=total),
            )
        except SourceFailed as failure:
            return {file.name: failure for file in group}
        else:
            return await self._unpack_group(group, sources, paths, ready)
        finally:
            shutil.rmtree(download)

    async def _unpack_group(
        self, group: Sequence[PackageFile], sources: Sequence[Source], paths: Sequence[Path], ready: Path
    ) -> dict[str, SourceFailed | WrongContent]:
        failures: dict[str, SourceFailed | WrongContent] = {}
        with ExitStack() as stack:
            try:
                parts = zip(parts_of(sources[0]), paths, strict=True)
                archives = [stack.enter_context(Archive(part, path)) for part, path in parts]
            except SourceFailed as failure:
                return {file.name: failure for file in group}
            for file, source in zip(group, sources, strict=True):
                try:
                    await trio.to_thread.run_sync(self._unpack, file, source, archives, ready)
                except (SourceFailed, WrongContent) as failure:
                    failures[file.name] = failure
        return failures

    def _unpack(self, file: PackageFile, source: Source, archives: Sequence[Archive], ready: Path) -> None:
        def progress(done: int) -> None:
            trio.from_thread.check_cancelled()
            trio.from_thread.run_sync(_tell, done)

        def _tell(done: int) -> None:
            self._say("verifying", file=file.name, done=done, total=file.size_bytes)

        unpack(file, source, archives, folder=ready, progress=progress)

    def _put_in_place(self, ready: Path) -> None:
        """One step for everybody else: a former installation leaves, the new one takes its place."""
        with (ready / MANIFEST).open("wb") as output:
            output.write(msgspec.json.encode(manifest_of(self._package)))
            output.flush()
            os.fsync(output.fileno())
        if self._target.exists():
            self._target.rename(self._work / "former")
        ready.rename(self._target)


def _sha256(path: Path) -> str:
    return sha256_of(path, between_blocks=trio.from_thread.check_cancelled)
