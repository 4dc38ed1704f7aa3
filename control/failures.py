"""The client's exceptions: one class per exit code, for errors that were replied and for those met on the way.

Standard library only; the error codes and their exit codes are in `protocol`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from audiocpp.control.protocol import ExitCode, exit_code_of


class ControlError(Exception):
    """Base. `code` is the error code, replied or our own; `param` the request field at fault."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    default_code: ClassVar[str] = "failed"

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.param = param


class Failed(ControlError):
    """The daemon tried and failed, or refused for a reason without an exit code of its own."""


class NotReachable(ControlError):
    """Nobody listens. The message names every address that was tried."""

    exit_code = ExitCode.NOT_REACHABLE
    default_code = "not_reachable"


class PermissionDenied(ControlError):
    """The message names the group to join."""

    exit_code = ExitCode.PERMISSION
    default_code = "forbidden"


class NotFound(ControlError):
    exit_code = ExitCode.NOT_FOUND
    default_code = "not_found"


class Busy(ControlError):
    exit_code = ExitCode.BUSY
    default_code = "server_busy"


class InsufficientMemory(ControlError):
    exit_code = ExitCode.INSUFFICIENT_MEMORY
    default_code = "insufficient_memory"


class TimedOut(ControlError):
    """No answer, or no end, in time. What was asked for may still happen."""

    exit_code = ExitCode.TIMEOUT
    default_code = "no_answer"


class VersionMismatch(ControlError):
    """What listens there speaks another version of the admin protocol, or another protocol."""

    exit_code = ExitCode.VERSION_MISMATCH
    default_code = "version_mismatch"


_BY_EXIT_CODE: Mapping[ExitCode, type[ControlError]] = {
    kind.exit_code: kind
    for kind in (Failed, NotReachable, PermissionDenied, NotFound, Busy, InsufficientMemory, TimedOut, VersionMismatch)
}


def replied_error(body: object, *, status: int) -> ControlError:
    """The exception for an error reply of the admin or the public API, whatever `body` was decoded from its JSON."""
    detail: Mapping[str, Any] = {}
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        detail = body["error"]
    code = str(detail.get("code") or "failed")
    message = str(detail.get("message") or f"HTTP status {status} without an explanation")
    return _BY_EXIT_CODE[exit_code_of(code)](message, code=code, param=detail.get("param"))
