"""Measures something again and again while a test does something else."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.integration.daemon_process import DaemonProcess, eventually

HEALTH_S = 0.1
"""What `/health` may take on an idle machine; tests allow three times that."""

MIN_SAMPLES = 10


@contextmanager
def sampled(measure: Callable[[], None], *, every_s: float) -> Iterator[None]:
    """Calls `measure` in a thread until the block ends; what it raises fails the test."""
    ended, failures = threading.Event(), []

    def loop() -> None:
        while not ended.wait(every_s):
            try:
                measure()
            except Exception as error:  # noqa: BLE001 - fails the test, below
                failures.append(error)
                return

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not failures, failures[0]


@contextmanager
def healthy(daemon: DaemonProcess) -> Iterator[None]:
    """Asks for `/health` all the while, at least ten times, and checks how soon it was answered."""
    times_s: list[float] = []
    with daemon.client() as client:

        def ask() -> None:
            asked = time.monotonic()
            assert client.get("/health").status_code == 200
            times_s.append(time.monotonic() - asked)

        with sampled(ask, every_s=0.02):
            yield
            eventually(lambda: len(times_s) >= MIN_SAMPLES, what="/health does not answer")
    assert sorted(times_s)[int(0.95 * len(times_s))] <= 3 * HEALTH_S, sorted(times_s)[-5:]
