"""Reads what processes hold and what the machine still gives, from /proc and the control groups. No policy here."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from audiocpp.daemon.eviction import ByteLimit

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_PRIVATE_FIELDS = ("Private_Clean:", "Private_Dirty:", "Swap:")
_UNLIMITED_V1 = 1 << 60
"""Version 1 writes a huge number where there is no limit."""


def private_bytes(pid: int) -> int:
    """Memory that would be free if the process ended: private pages and swap.

    Shared pages (the fork server's, mapped weights used by others too) are not counted. Reads smaps_rollup, which
    takes one millisecond for an idle process and up to 20 for one at work: the kernel walks all its pages. Raises
    `ProcessLookupError` when the process has ended.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[1]) for row in rows if row and row[0] in _PRIVATE_FIELDS) * 1024


def resident_set_bytes(pid: int) -> int:
    """All memory of a process that is in RAM, shared pages included. Raises `ProcessLookupError`."""
    try:
        text = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return int(text.split()[1]) * _PAGE_BYTES


class MemoryGauge:
    """The private memory of one process, read often: exactly when asked, else by how its resident set has changed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._private = 0
        self._resident_set = 0

    def exact(self) -> int:
        """Private bytes, measured. Raises `ProcessLookupError`."""
        self._private = private_bytes(self._pid)
        self._resident_set = resident_set_bytes(self._pid)
        return self._private

    def quick(self) -> int:
        """Private bytes as last measured, plus what the resident set has grown by since. Takes some 20 microseconds.

        Raises `ProcessLookupError`.
        """
        return self._private + resident_set_bytes(self._pid) - self._resident_set


def memory_limits(root: Path = Path("/")) -> list[ByteLimit]:
    """What each limit from outside still gives: the host, and every control group above this process, v2 and v1.

    Page cache that the kernel would drop counts as free, so reading a model file does not make its load impossible.
    `root` is where the file system is mounted.
    """
    host = ByteLimit("the host's free memory", _available(root))
    groups = [ByteLimit(f"control group {name}", min(free, host.free_bytes)) for name, free in _groups(root)]
    return [host, *groups]


def _available(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo has no MemAvailable")


def _groups(root: Path) -> Iterator[tuple[str, int]]:
    """Name and free bytes of each group with a limit, innermost first."""
    for line in (root / "proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            for name, folder in _upwards(root / "sys/fs/cgroup", path):
                if (free := _free_v2(folder)) is not None:
                    yield name, free
        elif "memory" in controllers.split(","):
            for name, folder in _upwards(root / "sys/fs/cgroup/memory", path):
                if (free := _free_v1(folder)) is not None:
                    yield name, free


def _upwards(mount: Path, path: str) -> Iterator[tuple[str, Path]]:
    """The group and its parents. In a container the path may be the host's; then only the mount's own group is seen."""
    group = PurePosixPath(path.lstrip("/"))
    for each in (group, *group.parents):
        yield f"/{each}" if str(each) != "." else "/", mount / each


def _free_v2(folder: Path) -> int | None:
    limits = [
        int(text) for name in ("memory.max", "memory.high") if (text := _text(folder / name)) not in (None, "max")
    ]
    current = _text(folder / "memory.current")
    if not limits or current is None:
        return None
    stat = _stat(folder)
    return min(limits) - (int(current) - stat.get("inactive_file", 0) - stat.get("slab_reclaimable", 0))


def _free_v1(folder: Path) -> int | None:
    limit, used = _text(folder / "memory.limit_in_bytes"), _text(folder / "memory.usage_in_bytes")
    if limit is None or used is None or int(limit) >= _UNLIMITED_V1:
        return None
    return int(limit) - (int(used) - _stat(folder).get("total_inactive_file", 0))


def _stat(folder: Path) -> dict[str, int]:
    text = _text(folder / "memory.stat") or ""
    return {key: int(value) for key, _, value in (line.partition(" ") for line in text.splitlines())}


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
