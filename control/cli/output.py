"""How a verb answers: a table on a terminal, tab-separated lines elsewhere, or one JSON object with `--json`.

Standard output carries the answer only; progress and errors go to standard error.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from audiocpp.control.failures import ControlError

JSON_SCHEMA = 1
"""Version of the JSON answers. Fields are added without raising it."""

Row = Mapping[str, Any]


class Column(NamedTuple):
    """`shown` is for people; programs get the value as it is, empty for None."""

    title: str
    field: str
    shown: Callable[[Any], str] = str


class Output:
    """Where a verb writes."""

    def __init__(self, *, as_json: bool, stdout: TextIO | None = None) -> None:
        self.as_json = as_json
        self.stdout = stdout or sys.stdout
        self.is_terminal = self.stdout.isatty()

    def json(self, answer: Mapping[str, Any]) -> None:
        self.line(json.dumps({"schema": JSON_SCHEMA, **answer}, ensure_ascii=False))

    def line(self, text: str) -> None:
        """Flushed, so that a reader at the end of a pipe sees it at once."""
        self.write(f"{text}\n")

    def write(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def table(self, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        """Aligned, with titles, on a terminal, less the columns that no row has anything in.

        Elsewhere one line a row, all fields, separated by tabs, no titles.
        """
        rows = list(rows)
        if not self.is_terminal:
            for row in rows:
                self.line("\t".join(_plain(row.get(column.field)) for column in columns))
            return
        columns = [column for column in columns if not rows or any(_says(row.get(column.field)) for row in rows)]
        cells = [[column.title for column in columns]]
        cells += [[_shown(column, row.get(column.field)) for column in columns] for row in rows]
        widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
        for texts in cells:
            self.line("  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip())

    def error(self, error: ControlError) -> None:
        """For people on standard error; with --json also as an object on standard output."""
        print(f"audiocppctl: {error.message}", file=sys.stderr)
        if self.as_json:
            detail = {"message": error.message, "code": error.code, "param": error.param}
            self.json({"error": {**detail, "exit_code": int(error.exit_code)}})


def discard_output() -> None:
    """After the reader of standard output has gone: let the interpreter's last flush succeed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def mebibytes(count: int) -> str:
    """In GiB from ten on, where tenths of a MiB say nothing."""
    return f"{count / 2**30:.1f} GiB" if abs(count) >= 10 * 2**30 else f"{count / 2**20:.1f} MiB"


def seconds(duration: float) -> str:
    return f"{duration:.1f} s"


def yes_or_nothing(value: bool) -> str:
    return "yes" if value else ""


def names(values: Sequence[str]) -> str:
    return ", ".join(values) or "-"


def _says(value: object) -> bool:
    """0 says something; False, None and what is empty do not."""
    return bool(value) or (value == 0 and value is not False)


def _shown(column: Column, value: object) -> str:
    return "-" if value is None else column.shown(value)


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).replace("\t", " ").replace("\n", " ")
