"""A memory control group for each worker, where one can be made: the kernel then enforces its limit.

Version 2 needs a group that was delegated to this process and that holds no process itself; version 1 needs root.
Where neither is to be had, the watcher of the pool is the limit.
"""

import logging
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import msgspec

log = logging.getLogger(__name__)

PREFIX = "audiocpp-worker-"


class WorkerGroup(msgspec.Struct, frozen=True):
    """The group of one worker process. `version` 1 or 2."""

    folder: Path
    version: int

    def limit(self, limit_bytes: int) -> None:
        """Sets the most memory that the group may hold. Raises `OSError`."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        (self.folder / name).write_text(str(limit_bytes))

    def admit(self, pid: int) -> None:
        """Moves a process into the group. Raises `OSError`."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def has_killed(self) -> bool:
        """Whether the kernel has ended a process of the group for passing its limit."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        try:
            lines = (self.folder / name).read_text(encoding="ascii").splitlines()
        except OSError:
            return False
        return any(int(count) > 0 for kind, _, count in (line.partition(" ") for line in lines) if kind == "oom_kill")

    def remove(self) -> None:
        """Removes the group once its process has ended. One that is still busy stays, and is said."""
        try:
            self.folder.rmdir()
        except OSError as error:
            log.warning("the control group %s stays: %s", self.folder, error)


class WorkerGroups:
    """Makes groups below the one this process is in.

    Args:
        root: where the file system is mounted.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._parent = _delegated_v2(root) or _parent_v1(root)

    @property
    def available(self) -> bool:
        """Whether the kernel can be asked to enforce limits here."""
        return self._parent is not None

    def make(self, pid: int, limit_bytes: int) -> WorkerGroup | None:
        """A group with the limit and the process in it; None where there is none to be had. Failures are logged."""
        if self._parent is None:
            return None
        folder, version = self._parent
        group = WorkerGroup(folder / f"{PREFIX}{pid}", version)
        try:
            group.folder.mkdir()
            group.limit(limit_bytes)
            group.admit(pid)
        except OSError as error:
            log.warning("no control group for worker %d, the watcher is its limit: %s", pid, error)
            if group.folder.is_dir():
                group.remove()
            return None
        return group


def _delegated_v2(root: Path) -> tuple[Path, int] | None:
    """The parent of this process's leaf group, if its memory controller was handed on to its children."""
    path = _membership(root, lambda controllers: not controllers)
    if path is None:
        return None
    parent = root / "sys/fs/cgroup" / PurePosixPath(path.lstrip("/")).parent
    try:
        delegated = "memory" in (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return None
    return (parent, 2) if delegated and _writable(parent) else None


def _parent_v1(root: Path) -> tuple[Path, int] | None:
    path = _membership(root, lambda controllers: "memory" in controllers.split(","))
    if path is None:
        return None
    mount = root / "sys/fs/cgroup/memory"
    for folder in (mount / path.lstrip("/"), mount):  # in a container the path may be the host's
        if (folder / "memory.limit_in_bytes").is_file() and _writable(folder):
            return folder, 1
    return None


def _membership(root: Path, wanted: Callable[[str], bool]) -> str | None:
    for line in (root / "proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if wanted(controllers):
            return path
    return None


def _writable(folder: Path) -> bool:
    """Tried, not asked: a read-only mount and a missing capability both show only then."""
    probe = folder / f"{PREFIX}probe"
    try:
        probe.mkdir(exist_ok=True)
        probe.rmdir()
    except OSError:
        return False
    return True
