"""Ctrl-C as an event of a select loop, so that it never strikes in the middle of a message."""

import os
import signal
import threading
from types import FrameType


class Interrupt:
    """While the block lasts, the first SIGINT only makes `fileno()` readable; the second is a KeyboardInterrupt.

    Signals reach a process's main thread alone; in another thread nothing is changed.
    """

    def __init__(self) -> None:
        self.pressed = False
        self._read_fd, self._write_fd = os.pipe()
        self._before: object = None
        self._in_main = threading.current_thread() is threading.main_thread()

    def fileno(self) -> int:
        return self._read_fd

    def __enter__(self) -> "Interrupt":
        if self._in_main:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._in_main:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        os.write(self._write_fd, b"!")
