"""Reads memory pressure (PSI): how much of the time somebody waited for memory. No policy here."""

from pathlib import Path, PurePosixPath

SHED_PERCENT = 10.0
"""Share of the last ten seconds in which some task stood still for want of memory, from which on models are shed."""


def memory_pressure(root: Path = Path("/")) -> float:
    """`some avg10`, in percent, of this process's version 2 group, else of the host; 0 where the kernel has no PSI."""
    for path in (_own_group(root) / "memory.pressure", root / "proc/pressure/memory"):
        try:
            text = path.read_text(encoding="ascii")
        except OSError:
            continue
        for line in text.splitlines():
            kind, *fields = line.split()
            if kind == "some":
                return float(dict(field.split("=") for field in fields)["avg10"])
    return 0.0


def _own_group(root: Path) -> Path:
    for line in (root / "proc/self/cgroup").read_text(encoding="ascii").splitlines():
        if line.startswith("0::"):
            return root / "sys/fs/cgroup" / PurePosixPath(line.removeprefix("0::").lstrip("/"))
    return root / "sys/fs/cgroup"
