"""What a process of its own adds to the load of a model."""

import sys
import time
from pathlib import Path

from bench.bed import RATIO_RUNS, Bed
from bench.companion import Companion
from bench.daemon_process import Daemon
from bench.report import Figure, Report
from bench.samples import alternate, median, median_difference


def worker_start(bed: Bed) -> Report:
    with bed.folder.start() as daemon:
        _load_in_daemon(daemon)
        ours, theirs = alternate(2 * RATIO_RUNS, lambda: _load_in_daemon(daemon), lambda: _load_bare(bed))
    return Report(
        "load of moonshine in a worker process, against the load in a process that has its libraries imported",
        [
            Figure(
                name="added by the worker",
                value=1e3 * median_difference(ours, theirs),
                unit="ms",
                limit=80,
                samples=len(ours),
                made_of=f"{1e3 * median(ours):.0f} ms, {1e3 * median(theirs):.0f} ms bare; fork, wire, accounting",
                why="containment by processes is only free if a cold request does not feel it",
            )
        ],
    )


def _load_in_daemon(daemon: Daemon) -> float:
    """Seconds of the operator's load, as its client sees them; the model is unloaded again."""
    started = time.perf_counter()
    report = daemon.admin.load("moonshine")
    wall_s = time.perf_counter() - started
    assert report["changed"], "the model was resident"
    daemon.admin.unload(["moonshine"])
    return wall_s


def _load_bare(bed: Bed) -> float:
    with Companion(Path(sys.executable), "bench.bare_engine") as engine:
        arguments = bed.material.load_arguments("moonshine_tiny_en")
        wall_s: float = engine.call("load", **arguments, cache_dir=str(bed.folder.graph_cache))["wall_s"]
        return wall_s
