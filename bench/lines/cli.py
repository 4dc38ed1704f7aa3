"""The operator's command line."""

import subprocess
import sys
import time
from functools import partial

from bench.bed import ABSOLUTE_RUNS, Bed
from bench.daemon_process import COMMANDS, ENVIRONMENT
from bench.report import Figure, Report
from bench.samples import alternate, median, percentile


def cli(bed: Bed) -> Report:
    with bed.folder.start() as daemon:
        run_ps = partial(_run_s, [str(COMMANDS / "audiocppctl"), "--socket", str(daemon.admin_socket), "ps"])
        run_ps()  # compiles the bytecode
        times_s, interpreter_s = alternate(ABSOLUTE_RUNS, run_ps, partial(_run_s, [sys.executable, "-c", "pass"]))
    return Report(
        "audiocppctl ps",
        [
            Figure(
                name="wall",
                value=1e3 * median(times_s),
                unit="ms",
                limit=150,
                samples=len(times_s),
                made_of=(
                    f"p95 {1e3 * percentile(times_s, 95):.0f} ms; the interpreter alone takes "
                    f"{1e3 * median(interpreter_s):.0f} ms, some 25 when the machine is idle"
                ),
                why="a command that is run by hand and by scripts in loops has to feel immediate",
            )
        ],
    )


def _run_s(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)
    return time.perf_counter() - started
