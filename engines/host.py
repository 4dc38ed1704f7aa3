"""What this machine offers: cores, memory, system on chip, and which runtimes are installed.

Read from the kernel's files and from the import system's index; no runtime is imported, since a native library that
does not suit the processor may end the process.
"""

import math
import os
import platform
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import msgspec

RUNTIME_MODULES = {"onnxruntime": "onnxruntime"}
"""Runtime -> the module that carries it. A runtime is one file in `runtimes/`."""


class HostFacts(msgspec.Struct, frozen=True):
    """Facts of one moment.

    Attributes:
        cores: processors this process may use at once, after affinity and CPU quota; at least 1.
        arch: as the kernel names it (`x86_64`, `aarch64`).
        memory_total_bytes: of the machine, whatever limits hold for this process.
        memory_available_bytes: what the kernel thinks can be had without swapping.
        runtimes: installed ones, by the keys of `RUNTIME_MODULES`.
        soc: system on chip as its device tree names it (`rk3588`); None where there is no device tree.
    """

    cores: int
    arch: str
    memory_total_bytes: int
    memory_available_bytes: int
    runtimes: frozenset[str]
    soc: str | None = None


def read_host(
    root: Path = Path("/"), *, usable_cpus: int | None = None, find: Callable[[str], object] = find_spec
) -> HostFacts:
    """The facts of the machine whose file system is mounted at `root`.

    `usable_cpus` is the size of this process's affinity mask, `find` how a module is looked up.
    """
    memory = _memory(root / "proc/meminfo")
    cpus = usable_cpus if usable_cpus is not None else len(os.sched_getaffinity(0))
    return HostFacts(
        cores=max(1, min([cpus, *(math.ceil(quota) for quota in _cpu_quotas(root))])),
        arch=platform.machine(),
        memory_total_bytes=memory.get("MemTotal", 0),
        memory_available_bytes=memory.get("MemAvailable", 0),
        runtimes=frozenset(name for name, module in RUNTIME_MODULES.items() if find(module) is not None),
        soc=_soc(root / "proc/device-tree/compatible"),
    )


def _memory(meminfo: Path) -> dict[str, int]:
    rows = (line.split() for line in meminfo.read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3}


def _soc(compatible: Path) -> str | None:
    """The device tree lists boards from the particular to the general; the last is the chip, `vendor,chip`."""
    if not compatible.is_file():
        return None
    names = compatible.read_bytes().rstrip(b"\0").split(b"\0")
    return names[-1].decode("ascii", "replace").rpartition(",")[2] or None


def _cpu_quotas(root: Path) -> Iterator[float]:
    """The CPU quota, in processors, of each control group above this process that has one (versions 2 and 1)."""
    memberships = root / "proc/self/cgroup"
    if not memberships.is_file():
        return
    for line in memberships.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _quotas_above(root / "sys/fs/cgroup", path, _quota_v2)
        elif "cpu" in controllers.split(","):
            yield from _quotas_above(root / "sys/fs/cgroup/cpu", path, _quota_v1)


def _quotas_above(mount: Path, path: str, quota: Callable[[Path], float | None]) -> Iterator[float]:
    """In a container the path may be that of the host; then only the group at the mount point is visible."""
    group = PurePosixPath(path.lstrip("/"))
    for relative in (group, *group.parents):
        value = quota(mount / relative)
        if value is not None:
            yield value


def _quota_v2(group: Path) -> float | None:
    text = _text(group / "cpu.max")
    if text is None or text.startswith("max"):
        return None
    quota, period = text.split()
    return int(quota) / int(period)


def _quota_v1(group: Path) -> float | None:
    quota, period = _text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")
    if quota is None or period is None or int(quota) <= 0:
        return None
    return int(quota) / int(period)


def _text(file: Path) -> str | None:
    return file.read_text().strip() if file.is_file() else None
