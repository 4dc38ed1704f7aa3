"""Live events as text: on a terminal the line being spoken is rewritten until it is final, elsewhere finals only."""

import shutil
from collections.abc import Mapping
from typing import Any

from audiocpp.control.cli.output import Output


class LiveText:
    """Shows the events of one session in order.

    A finished segment is one line. A model that reports no segments gets its whole text as one line at the end.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._stable = ""
        self._segments = 0

    def show(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind == "transcript.text.delta":
            self._stable += event["delta"]
            self._rewrite(self._stable)
        elif kind == "transcript.text.partial":
            self._rewrite(self._stable + event["text"])
        elif kind == "transcript.segment":
            self._segments += 1
            self._stable = ""
            self._finish(event["text"])
        elif kind == "transcript.text.done" and not self._segments:
            self._finish(event["text"])

    def _rewrite(self, text: str) -> None:
        """Show the end of the line when it is longer than the terminal is wide."""
        if self._output.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._output.write(f"\r\x1b[K{text.strip()[-width:]}")

    def _finish(self, text: str) -> None:
        if self._output.is_terminal:
            self._output.write("\r\x1b[K")
        if text.strip():
            self._output.line(text.strip())
