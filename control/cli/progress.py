"""A progress bar on standard error. Silent when that is not a terminal."""

import shutil
import sys
from types import TracebackType
from typing import TextIO

_BAR_WIDTH = 24


class ProgressBar:
    """One line that is rewritten. Leaving the block clears it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = False

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, name: str, done_bytes: int, total_bytes: int | None) -> None:
        if not self._stream.isatty():
            return
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{bar_text(name, done_bytes, total_bytes)[:width]}", end="", file=self._stream, flush=True)
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._shown = False


def bar_text(name: str, done_bytes: int, total_bytes: int | None) -> str:
    """`[#####-----]  42 %  12.3 of 29.0 MiB  name`; without a total only what is done."""
    done_mib = done_bytes / 2**20
    if not total_bytes:
        return f"{done_mib:.1f} MiB  {name}"
    share = min(done_bytes / total_bytes, 1.0)
    filled = int(share * _BAR_WIDTH)
    bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
    return f"[{bar}] {share:4.0%}  {done_mib:.1f} of {total_bytes / 2**20:.1f} MiB  {name}"
