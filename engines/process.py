"""What a worker asks of the kernel and of the C library for itself."""

import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_MADV_DONTNEED = 4

_MMAP_THRESHOLD_BYTES = 32 << 20
_TRIM_THRESHOLD_BYTES = 256 << 20
"""Blocks below the first come from the heap, which is not shortened while runs go on: a graph's tensors are allocated
and freed at every run, and having the kernel map and clear them anew each time costs up to half of Piper's time. What
has been freed is given back when the worker is idle."""

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Has the kernel end this process when its parent ends. Raises `OSError`."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() == 1:
        os._exit(1)  # the parent ended before the line above


def use_one_heap() -> None:
    """Sets glibc's allocator to one heap for all threads that keeps what is freed. Other C libraries ignore it."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_ARENA_MAX, 1)
        _libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        _libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)


def give_back_freed_memory() -> None:
    """Returns freed heap pages to the kernel, where the C library can."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def unmap_library_pages() -> None:
    """Gives up the pages of libraries that only their initialisers needed; what is used again is mapped anew.

    For a process that has imported what its children will use: a fork does not hand on the map of such pages anyway.
    Raises `OSError`.
    """
    for start, end in _unwritten_mappings(Path("/proc/self/smaps").read_text()):
        if _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED) != 0:
            raise OSError(ctypes.get_errno(), "madvise(MADV_DONTNEED)")


def _unwritten_mappings(smaps: str) -> Iterator[tuple[int, int]]:
    """Start and end of each mapping of a file that cannot be written and of which no page was (relocations do that)."""
    span: tuple[int, int] | None = None
    for line in smaps.splitlines():
        fields = line.split(maxsplit=5)
        if not fields[0].endswith(":"):
            start, end = (int(address, 16) for address in fields[0].split("-"))
            of_file = len(fields) == 6 and fields[5].startswith("/")
            span = (start, end) if of_file and fields[1] in ("r-xp", "r--p") else None
        elif fields[0] == "Anonymous:" and int(fields[1]) == 0 and span is not None:
            yield span
