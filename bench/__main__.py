"""`python -m bench [NAME...] [--json FILE]`: prints the benches; status 1 when a limit is missed."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench.bed import Bed
from bench.daemon_process import daemon_folder
from bench.lines.bad_input import bad_input
from bench.lines.cli import cli
from bench.lines.idle import idle
from bench.lines.live import live
from bench.lines.overhead import overhead
from bench.lines.synthesis import synthesis
from bench.lines.throughput import throughput
from bench.lines.transcription import transcription
from bench.lines.voice_activity import voice_activity
from bench.lines.worker_start import worker_start
from bench.material import pull_material
from bench.report import Report, lines, write_json

BENCHES: dict[str, Callable[[Bed], Report]] = {
    "transcription": transcription,
    "overhead": overhead,
    "worker-start": worker_start,
    "vad": voice_activity,
    "synthesis": synthesis,
    "throughput": throughput,
    "live": live,
    "idle": idle,
    "cli": cli,
    "bad-input": bad_input,
}


def main() -> int:
    arguments = _parser().parse_args()
    material = pull_material()
    reports = []
    with daemon_folder(material.models.models_root) as folder:
        for name in arguments.names or BENCHES:
            report = BENCHES[name](Bed(material, folder))
            print("\n".join(lines(report)), end="\n\n", flush=True)
            reports.append(report)
    if arguments.json is not None:
        write_json(reports, arguments.json)
    missed = [f"{report.title}: {figure.name}" for report in reports for figure in report.figures if figure.missed]
    print("\n".join(["limits missed:", *missed]) if missed else "all limits met")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures the daemon beside its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(BENCHES)}; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
