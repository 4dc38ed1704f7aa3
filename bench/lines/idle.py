"""A daemon that nobody uses."""

import math
import time

from bench.bed import ABSOLUTE_RUNS, Bed
from bench.processes import ProcessTree
from bench.report import Figure, Report
from bench.samples import median

_SETTLED_S = 2.0
_SETTLE_AT_MOST_S = 30.0
_WATCH_S = 10.0
_MIB = 1 << 20


def idle(bed: Bed) -> Report:
    with bed.folder.start():
        pass  # compiles the bytecode and fills the page cache
    starts_s = []
    for _ in range(ABSOLUTE_RUNS):
        with bed.folder.start() as daemon:
            starts_s.append(daemon.start_s)
    with bed.folder.start() as daemon:
        _settle(daemon.tree)
        cpu_before_s = daemon.tree.cpu_s()
        time.sleep(_WATCH_S)
        cpu_s = daemon.tree.cpu_s() - cpu_before_s
        processes = daemon.tree.memory_by_process()
    return Report(
        "an idle daemon, no model loaded",
        [
            Figure(
                name="private memory",
                value=sum(memory.private for memory in processes.values()) / _MIB,
                unit="MiB",
                limit=90,
                samples=1,
                made_of=", ".join(f"{name} {memory.private / _MIB:.0f}" for name, memory in processes.items()),
                why="what a device pays for the daemon before it does anything: all its processes together",
            ),
            Figure(
                name="processor time",
                value=100 * cpu_s / _WATCH_S,
                unit="%",
                limit=1,
                samples=1,
                made_of=f"{1e3 * cpu_s:.0f} ms of one core in {_WATCH_S:.0f} s",
                why="wake-ups cost a battery",
            ),
            Figure(
                name="listening after",
                value=median(starts_s),
                unit="s",
                limit=1.0,
                samples=len(starts_s),
                made_of="from the start of the process; models lazy, bytecode compiled, page cache warm",
                why="how soon a service that depends on it can go on after a boot or a restart",
            ),
        ],
    )


def _settle(tree: ProcessTree) -> None:
    """Returns when nothing has moved for a while: the fork server goes on importing after the daemon listens."""
    deadline = time.monotonic() + _SETTLE_AT_MOST_S
    cpu_s = math.nan
    while cpu_s != (cpu_s := tree.cpu_s()) and time.monotonic() < deadline:
        time.sleep(_SETTLED_S)
