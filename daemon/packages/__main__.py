"""Pulls packages without a daemon: `python -m audiocpp.daemon.packages pull ID...`. For images and tests."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.packages.progress import PullProgress
from audiocpp.daemon.packages.store import PackageStore
from audiocpp.daemon.paths import models_root
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.errors import SpecError


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        catalog = Catalog.load(options.model_spec_override)
        store = PackageStore(models_root(os.environ, flag=options.models_root), catalog)
        trio.run(partial(_pull, store, options.ids))
    except (DaemonError, SpecError) as error:
        sys.stderr.write(f"failed: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m audiocpp.daemon.packages")
    pull = parser.add_subparsers(required=True, metavar="COMMAND").add_parser("pull", help="install packages")
    pull.add_argument("ids", nargs="+", metavar="ID")
    pull.add_argument("--models-root", type=Path, metavar="FOLDER")
    pull.add_argument("--model-spec-override", type=Path, metavar="PATH")
    return parser


async def _pull(store: PackageStore, ids: Sequence[str]) -> None:
    for package_id in ids:
        await store.pull(package_id, _Lines())


class _Lines:
    """Writes a line for each new phase or file, not for each block."""

    def __init__(self) -> None:
        self._last: tuple[str, ...] = ()

    def __call__(self, progress: PullProgress) -> None:
        step = (progress.package, progress.phase, progress.file, progress.message)
        if step == self._last or (step[:2] == self._last[:2] and not any(step[2:])):
            return
        self._last = step
        facts = [progress.file, progress.message, progress.license, progress.attribution, progress.license_note]
        size = f"{progress.total_bytes / 1e6:.1f} MB" if progress.total_bytes else ""
        sys.stderr.write(f"{progress.package}: {progress.phase} {', '.join(filter(None, [*facts, size]))}\n")


if __name__ == "__main__":
    sys.exit(main())
