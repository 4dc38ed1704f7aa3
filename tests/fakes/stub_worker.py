"""A worker process with families that misbehave on demand: faults that no real model can be made to have."""

import os
import signal
import socket
import time
from collections.abc import Sequence
from typing import ClassVar

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.families import FAMILIES
from audiocpp.engines.family import LoadContext, Run, Work
from audiocpp.engines.tasks import TaskRequest, TextDelta

MIB = 1 << 20


class StubFamily:
    """Does what the load option `load` says while loading, and what the request's text says while running.

    `slow`: takes half a second. `sleep`: never returns and heeds nothing. `segfault`: dies. `eat`: takes memory for
    ever. Anything else: answers.
    """

    name: ClassVar[str] = "stub"

    @classmethod
    def load(cls, context: LoadContext) -> "StubFamily":
        misbehave(str(context.options.get("load", "")))
        return cls()

    def run(self, request: TaskRequest) -> Run:
        yield Work(self._compute, [request.text])
        yield TextDelta("answered")

    def _compute(self, rows: Sequence[str], control: RunControl) -> Sequence[str]:
        misbehave(rows[0])
        control.check()
        return rows

    def warm_up(self) -> None:
        pass

    def close(self) -> None:
        pass


def misbehave(how: str) -> None:
    eaten = []
    if how == "slow":
        time.sleep(0.5)
    while how == "sleep":
        time.sleep(1)
    while how == "eat":
        eaten.append(bytearray(os.urandom(1)) * MIB)
        time.sleep(0.001)
    if how == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)


def run_stub_worker(connection: socket.socket, *, threads: int, name: str) -> None:
    """Like `run_worker`, with the family `stub`."""
    from audiocpp.engines.worker import worker_main

    FAMILIES["stub"] = (__name__, StubFamily.__name__)
    worker_main(connection, threads=threads, name=name)
