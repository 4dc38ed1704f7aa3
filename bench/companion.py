"""A process that measures beside the daemon: a peer in its own environment, or the bare engine in ours.

It runs a module of this package that calls `serve`, and then one verb at a time, so that its runs and the daemon's
can take turns while its model stays loaded. Standard library only: a peer's environment has nothing else of ours.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.processes import ProcessTree
from bench.samples import Sample

CHECKOUT = Path(__file__).parent.parent


class Companion:
    """The running process of module `module` under `python`. Ends when the block is left."""

    def __init__(self, python: Path, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [python, "-m", module, *arguments],
            cwd=CHECKOUT,
            # A peer's runtime need not report to its makers either.
            env=os.environ | {"ORT_DISABLE_TELEMETRY": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.tree = ProcessTree(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def call(self, verb: str, **arguments: object) -> dict[str, Any]:
        """Runs a verb; its answer, with `wall_s` as measured there. Raises `RuntimeError` when the process fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"verb": verb, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with status {self._process.wait()}; its error is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def sample(self, verb: str, **arguments: object) -> Sample:
        """A verb's run as a sample. The time is measured there: the pipe is not part of it."""
        cpu_before_s = self.tree.cpu_s()
        answer = self.call(verb, **arguments)
        cpu_s = self.tree.cpu_s() - cpu_before_s
        return Sample(answer["wall_s"], cpu_s, answer.get("first_s", float("nan")))


def serve(**verbs: Callable[..., dict[str, Any]]) -> None:
    """Answers calls on standard input until it closes."""
    for line in sys.stdin:
        arguments = json.loads(line)
        verb = verbs[arguments.pop("verb")]
        started = time.perf_counter()
        answer = verb(**arguments)
        # A verb may time a part of itself.
        print(json.dumps({"wall_s": time.perf_counter() - started, **answer}), flush=True)
