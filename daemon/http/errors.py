"""Turns whatever a route raises into the JSON error body. The only place that does."""

import logging
import math

from quart import Response, current_app, has_websocket_context, request, websocket
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WrongMethod
from werkzeug.exceptions import NotFound as NoRoute
from werkzeug.routing.exceptions import WebsocketMismatch

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import (
    BodyTooLarge,
    DaemonError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    Unauthorized,
)
from audiocpp.daemon.http.reply import json_reply
from audiocpp.daemon.logs import request_id

log = logging.getLogger(__name__)

RETRY_AFTER_S = 1.0
"""Sent with a 503 whose cause gives no better figure: a slot may be free at any moment."""


def register(app: QuartTrio) -> None:
    app.register_error_handler(DaemonError, _daemon_error)
    app.register_error_handler(HTTPException, _http_exception)
    app.register_error_handler(Exception, _unexpected)


def error_object(error: Exception) -> dict[str, str | None]:
    """`message`, `type`, `code`, `param` of an error, which is counted. An unexpected one is logged, and its text is
    not shown."""
    if not isinstance(error, DaemonError):
        log.error("Unexpected error", exc_info=error)
        error = DaemonError(f"internal error; the log has the details under request id {request_id.get() or 'none'}")
    backend().services.metrics.refused(error.code)
    return {"message": error.message, "type": error.type, "code": error.code, "param": error.param}


async def _daemon_error(error: DaemonError) -> Response:
    here = websocket if has_websocket_context() else request
    log.info("%s: %s", here.path, error.message, extra={"code": error.code, "param": error.param})
    response = json_reply({"error": error_object(error)}, status=error.status)
    if error.status == 503:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s or RETRY_AFTER_S))
    if isinstance(error, Unauthorized):
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def _unexpected(error: Exception) -> Response:
    return json_reply({"error": error_object(error)}, status=500)


async def _http_exception(error: HTTPException) -> Response:
    """Replies that Quart and werkzeug make themselves."""
    here = websocket if has_websocket_context() else request
    match error:
        case WebsocketMismatch() if has_websocket_context():
            return await _daemon_error(InvalidRequest(f"{here.path} is not a WebSocket: send a plain request"))
        case WebsocketMismatch():
            return await _daemon_error(InvalidRequest(f"{here.path} is a WebSocket: send an upgrade request"))
        case NoRoute():
            return await _daemon_error(NotFound(f"unknown endpoint: {here.path}"))
        case WrongMethod() if here.method == "GET" and _is_websocket(here.path):
            return await _daemon_error(InvalidRequest(f"{here.path} is a WebSocket: send an upgrade request"))
        case WrongMethod():
            allowed = ", ".join(sorted(error.valid_methods or ()))
            response = await _daemon_error(MethodNotAllowed(f"{here.method} {here.path}: allowed are {allowed}"))
            response.headers["Allow"] = allowed
            return response
    kinds = {408: RequestTimeout, 413: BodyTooLarge}
    if error.code is not None and error.code < 500:
        return await _daemon_error(kinds.get(error.code, InvalidRequest)(error.description or error.name))
    return await _unexpected(error)


def _is_websocket(path: str) -> bool:
    """Whether a path that takes other methods takes an upgrade too."""
    return any(rule.websocket and rule.rule == path for rule in current_app.url_map.iter_rules())
