"""The daemon's log: lines for people on a terminal, JSON lines otherwise, to stderr and to a file if one is named.

Code logs through `logging.getLogger(__name__)` and passes fields as `extra`. Records are written by the thread that
makes them, so nothing is pending when the process ends.
"""

import json
import logging
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TextIO

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request being served by the current task; empty outside of requests."""

PROJECT = "audiocpp"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


@dataclass(frozen=True, slots=True)
class Logs:
    """The handlers in use."""

    handlers: tuple[logging.Handler, ...]

    def reopen(self) -> None:
        """Goes on in a new file when the log file was moved or removed, as log rotation does."""
        for handler in self.handlers:
            if isinstance(handler, WatchedFileHandler):
                handler.reopenIfNeeded()

    def close(self) -> None:
        """Detaches from the logging system. Closes the file, not the stream."""
        for handler in self.handlers:
            logging.getLogger().removeHandler(handler)
            handler.close()


def configure_logs(level: int, *, stream: TextIO = sys.stderr, file: Path | None = None) -> Logs:
    """Sends records of at least `level` to `stream`, and to `file` as well.

    Records of libraries, and Python's warnings, pass from WARNING on. Raises `OSError` when the file cannot be
    opened for appending.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler(stream)]
    handlers[0].setFormatter(LineFormatter() if stream.isatty() else JsonFormatter())
    if file is not None:
        handlers.append(WatchedFileHandler(file, encoding="utf-8"))
        handlers[1].setFormatter(JsonFormatter())
    root = logging.getLogger()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger(PROJECT).setLevel(level)
    logging.captureWarnings(capture=True)
    return Logs(tuple(handlers))


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What a record carries besides time, level, logger and message: the request's id and all of `extra`."""
    fields = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    if current := request_id.get():
        fields.setdefault("request_id", current)
    return fields


class JsonFormatter(logging.Formatter):
    """One JSON object a line. Values that JSON does not know are written as text."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": _short_name(record),
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class LineFormatter(logging.Formatter):
    """`12:30:01.250 warning  daemon.workers: message  key=value`, then the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        fields = "".join(f"  {key}={value}" for key, value in fields_of(record).items())
        line = (
            f"{clock}.{int(record.msecs):03d} {record.levelname.lower():8} "
            f"{_short_name(record)}: {record.getMessage()}{fields}"
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _short_name(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{PROJECT}.")
