"""Processor time and memory of a process and all that descend from it, read from /proc."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. `private`: pages of one process alone, swapped ones too. `proportional`: shared pages divided by sharers.

    Over several processes `private` leaves out what they share, `resident` counts it once for each, and
    `proportional` counts it once.
    """

    private: int = 0
    proportional: int = 0
    resident: int = 0

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(
            self.private + other.private, self.proportional + other.proportional, self.resident + other.resident
        )


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """The process `pid` and its descendants, looked up anew at each reading."""

    pid: int

    def pids(self) -> list[int]:
        """The process itself first."""
        children: dict[int, list[int]] = {}
        for pid, fields in _stats():
            children.setdefault(int(fields[1]), []).append(pid)
        found = [self.pid]
        for pid in found:
            found += children.get(pid, [])
        return found

    def cpu_s(self) -> float:
        """User and system time, that of ended and reaped descendants included. In steps of the kernel's clock tick."""
        members = set(self.pids())
        # utime, stime, cutime, cstime: fields 14 to 17 of proc_pid_stat(5), counted here from the state.
        return sum(sum(map(int, fields[11:15])) for pid, fields in _stats() if pid in members) * _TICK_S

    def memory(self) -> Memory:
        return sum(self.memory_by_process().values(), Memory())

    def memory_by_process(self) -> dict[str, Memory]:
        """`name (pid)` -> memory, for the detail behind a sum."""
        return {f"{_name(pid)} ({pid})": _memory(pid) for pid in self.pids()}


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Each process's fields from the third (the state) on; the second, its name, may hold spaces and parentheses."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                text = (folder / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended since the folder was listed
            yield int(folder.name), text.rpartition(")")[2].split()


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _memory(pid: int) -> Memory:
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
    kilobytes = {row[0].rstrip(":"): int(row[1]) for row in rows if row[-1] == "kB"}
    private = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"] + kilobytes["Swap"]
    return Memory(private << 10, (kilobytes["Pss"] + kilobytes["SwapPss"]) << 10, kilobytes["Rss"] << 10)
