"""What a worker asks of the kernel and of the C library for itself."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

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
