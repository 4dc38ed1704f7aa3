"""The daemon's exceptions. `http/errors.py` maps them to replies, once; `control` maps them to admin codes."""

from typing import ClassVar

SHOWN_CHARACTERS = 1000
"""What a message quotes comes from the client and may be of any length."""


class DaemonError(Exception):
    """Base. `status`, `type` and `code` are what a client sees; `param` names the request field at fault."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        self.message = _shown(message)
        super().__init__(self.message)
        self.param = None if param is None else _shown(param)
        self.retry_after_s = retry_after_s


def _shown(text: str) -> str:
    """The beginning, which names the field, and the end, which says what is accepted."""
    half = SHOWN_CHARACTERS // 2
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


class InvalidRequest(DaemonError):
    """The client's mistake; the message names field, value and what is accepted."""

    status, type, code = 400, "invalid_request_error", "invalid_request"


class Unauthorized(DaemonError):
    """API keys are configured and the request shows none of them."""

    status, type, code = 401, "invalid_request_error", "invalid_api_key"


class Forbidden(DaemonError):
    """The request may not do this, or not from there."""

    status, type, code = 403, "forbidden", "forbidden"


class NotFound(DaemonError):
    """There is no such route, or no such thing."""

    status, type, code = 404, "not_found", "not_found"


class ModelNotFound(DaemonError):
    """No entry answers to this model id."""

    status, type, code = 404, "invalid_request_error", "model_not_found"


class ModelNotInstalled(DaemonError):
    """The entry's package is missing. The message ends with the command that pulls it."""

    status, type, code = 404, "invalid_request_error", "model_not_installed"


class MethodNotAllowed(DaemonError):
    """The route takes other methods; `Allow` lists them."""

    status, type, code = 405, "invalid_request_error", "method_not_allowed"


class Conflict(DaemonError):
    """The present state does not allow it."""

    status, type, code = 409, "invalid_request_error", "conflict"


class BodyTooLarge(DaemonError):
    """The body, an upload or a recording is larger than a stated limit."""

    status, type, code = 413, "invalid_request_error", "body_too_large"


class RequestTooLarge(BodyTooLarge):
    """The body, on a listener of the frontend `websocket`."""

    type = "request_too_large"


class UnsupportedMedia(DaemonError):
    """A recognised container or codec that cannot be decoded here."""

    status, type, code = 415, "invalid_request_error", "unsupported_media"


class RequestTimeout(DaemonError):
    """The client or the run took longer than a stated limit."""

    status, type, code = 408, "invalid_request_error", "request_timeout"


class ModelFailed(DaemonError):
    """The model could not be loaded, or is in back-off after failing repeatedly."""

    status, type, code = 503, "server_error", "model_failed"


class WorkerDied(DaemonError):
    """The worker process of the model ended during the run."""

    status, type, code = 500, "server_error", "worker_died"


class RunFailed(DaemonError):
    """The model failed on this request."""

    status, type, code = 500, "server_error", "run_failed"


class ServerBusy(DaemonError):
    """No slot became free in time; `Retry-After` says when to come back."""

    status, type, code = 503, "server_busy", "server_busy"


class InsufficientMemory(DaemonError):
    """The model does not fit into memory now."""

    status, type, code = 503, "insufficient_memory", "insufficient_memory"


class ShuttingDown(DaemonError):
    """The daemon is stopping."""

    status, type, code = 503, "server_busy", "shutting_down"


class ConfigError(Exception):
    """The configuration cannot be used. The message starts with the path of the field at fault."""
