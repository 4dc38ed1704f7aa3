"""The process that workers are forked from. Light on purpose: it is started before anything heavy is imported."""

import multiprocessing
import os
import signal
from multiprocessing import forkserver, resource_tracker

PRELOADED = ["audiocpp.engines.preload", "audiocpp.daemon.cli", "audiocpp.daemon.worker_entry"]
"""The second is what a worker's main module imports again; found loaded, it costs a start 20 ms less."""


def start_fork_server() -> None:
    """Starts the fork server and returns at once; it preloads what all workers need.

    Call once, before any thread exists.
    """
    # glibc gives each thread a heap of its own, up to eight for each core; freed memory strands there. Workers have
    # few threads and large blocks, so two heaps are enough.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    # ONNX Runtime 1.32 keeps a thread and a database in the user's cache, and reports its use to its makers.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    # A Ctrl-C reaches the whole group, and the daemon alone answers it. What is blocked at a process's start stays
    # blocked. The resource tracker comes first: its start unblocks.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
