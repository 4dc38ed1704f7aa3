"""Reads what processes and the machine hold in memory, from /proc. No policy here."""

from pathlib import Path

_PRIVATE_FIELDS = ("Private_Clean:", "Private_Dirty:", "Swap:")


def private_bytes(pid: int) -> int:
    """Memory that would be free if the process ended: private pages and swap.

    Shared pages (the fork server's, mapped weights used by others too) are not counted. Reads smaps_rollup, which
    takes about a millisecond. Raises `ProcessLookupError` when the process has ended.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[1]) for row in rows if row and row[0] in _PRIVATE_FIELDS) * 1024


def available_bytes() -> int:
    """Memory the host can give without swapping (MemAvailable)."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo has no MemAvailable")
