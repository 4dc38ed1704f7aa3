"""What a log line holds, and that none is lost when the file is rotated."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from audiocpp.daemon.logs import Logs, configure_logs, request_id


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def restored() -> Iterator[None]:
    """The levels of the loggers that `configure_logs` sets."""
    loggers = [logging.getLogger(), logging.getLogger("audiocpp")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def logs(stream: io.StringIO, restored: None) -> Iterator[Logs]:
    logs = configure_logs(logging.INFO, stream=stream)
    yield logs
    logs.close()


log = logging.getLogger("audiocpp.daemon.workers")


def test_line_is_json_with_the_extra_fields(logs: Logs, stream: io.StringIO) -> None:
    log.info("loaded %s", "piper", extra={"model": "say", "path": Path("/m")})
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "daemon.workers",
        "message": "loaded piper",
        "model": "say",
        "path": "/m",
    }


def test_line_carries_the_id_of_the_request_being_served(logs: Logs, stream: io.StringIO) -> None:
    token = request_id.set("r-1")
    log.info("inside")
    request_id.reset(token)
    log.info("outside")
    inside, outside = map(json.loads, stream.getvalue().splitlines())
    assert inside["request_id"] == "r-1"
    assert "request_id" not in outside


def test_message_with_line_breaks_stays_one_line(logs: Logs, stream: io.StringIO) -> None:
    log.info("a\nb")
    assert json.loads(stream.getvalue())["message"] == "a\nb"


def test_traceback_is_kept(logs: Logs, stream: io.StringIO) -> None:
    try:
        raise LookupError("gone")
    except LookupError:
        log.exception("failed")
    assert "LookupError: gone" in json.loads(stream.getvalue())["exception"]


def test_libraries_are_heard_from_warnings_on(logs: Logs, stream: io.StringIO) -> None:
    library = logging.getLogger("hypercorn.error")
    library.info("chatter")
    library.warning("trouble")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["trouble"]


def test_terminal_gets_lines_for_people(restored: None) -> None:
    terminal = Terminal()
    logs = configure_logs(logging.INFO, stream=terminal)
    log.warning("slow", extra={"model": "say"})
    logs.close()
    _, _, rest = terminal.getvalue().partition(" ")
    assert rest == "warning  daemon.workers: slow  model=say\n"


def test_file_gets_the_lines_too_and_reopen_goes_on_after_rotation(tmp_path: Path, restored: None) -> None:
    file, rotated = tmp_path / "daemon.log", tmp_path / "daemon.log.1"
    stream = io.StringIO()
    logs = configure_logs(logging.INFO, stream=stream, file=file)
    log.info("one")
    file.rename(rotated)
    logs.reopen()
    assert file.exists()
    log.info("two")
    logs.close()
    assert [json.loads(text.read_text())["message"] for text in (rotated, file)] == ["one", "two"]
    assert len(stream.getvalue().splitlines()) == 2


def test_file_that_cannot_be_written_is_an_error(tmp_path: Path, restored: None) -> None:
    with pytest.raises(OSError, match="no_folder"):
        configure_logs(logging.INFO, stream=io.StringIO(), file=tmp_path / "no_folder" / "x.log")
