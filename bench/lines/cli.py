"""The operator's command line."""

import subprocess
import time

from bench.bed import ABSOLUTE_RUNS, Bed
from bench.daemon_process import COMMANDS, ENVIRONMENT
from bench.report import Figure, Report
from bench.samples import median, percentile


def cli(bed: Bed) -> Report:
    with bed.folder.start() as daemon:
        command = [str(COMMANDS / "audiocppctl"), "--socket", str(daemon.admin_socket), "ps"]
        times_s = []
        for _ in range(1 + ABSOLUTE_RUNS):
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)
            times_s.append(time.perf_counter() - started)
    times_s = times_s[1:]
    return Report(
        "audiocppctl ps",
        [
            Figure(
                name="wall",
                value=1e3 * median(times_s),
                unit="ms",
                limit=150,
                samples=len(times_s),
                made_of=f"p95 {1e3 * percentile(times_s, 95):.0f} ms; interpreter, imports, socket, table",
                why="a command that is run by hand and by scripts in loops has to feel immediate",
            )
        ],
    )
