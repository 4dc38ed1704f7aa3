"""The admin app: HTTP for the operator over the Unix socket.

It checks who calls, dispatches by the table of `handlers` and renders errors like the public API does. It owns no
socket: the accept loop that serves it reads the peer's credentials and hands them over in the ASGI scope as
`scope["state"]["peer"]`. Without them every call is refused.
"""

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from audiocpp.control.backend import AdminBackend, BackendError
from audiocpp.control.handlers import ROUTES, Call, Route, error_reply, internal_error
from audiocpp.control.ndjson import EventBody
from audiocpp.control.peer import PeerCredentials
from audiocpp.control.protocol import ADMIN_HOST, ADMIN_VERSION, VERSION_HEADER
from audiocpp.control.rights import AccessPolicy, Right, required_group

__all__ = ["AdminBackend", "create_admin_app"]

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 1024
BODY_TIMEOUT_S = 10
HOSTS = frozenset({ADMIN_HOST, "localhost"})

_HTTP_ERRORS = {404: "unknown_path", 405: "method_not_allowed", 408: "request_timeout", 413: "body_too_large"}


def create_admin_app(backend: AdminBackend, *, policy: AccessPolicy | None = None) -> QuartTrio:
    """Build the app. The default policy is that of this host, looked up once, here."""
    app = QuartTrio(__name__, static_folder=None)
    app.config.update(MAX_CONTENT_LENGTH=MAX_BODY_BYTES, BODY_TIMEOUT=BODY_TIMEOUT_S, RESPONSE_TIMEOUT=None)
    policy = policy or AccessPolicy.of_this_host()
    for route in ROUTES:
        view = _view(route, backend, policy)
        app.add_url_rule(route.path, route.path, view, methods=[route.method], provide_automatic_options=False)
    app.before_request(_refuse_web_pages)
    app.after_request(_add_version)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _error)
    return app


def _view(route: Route, backend: AdminBackend, policy: AccessPolicy) -> Callable[[], Awaitable[Response]]:
    async def view() -> Response:
        peer = _peer()
        if peer is None:
            return _forbidden("No peer credentials: the admin API is served on its Unix socket only.")
        if not policy.allows(peer, route.right):
            return _forbidden(_missing_right(peer, route.right))
        body = await request.get_data(cache=False, as_text=False, parse_form_data=False)
        reply = await route.handler(Call(backend=backend, peer=peer, body=body))
        if isinstance(reply, EventBody):
            return Response(reply, content_type="application/x-ndjson")
        return _json(reply)

    return view


def _peer() -> PeerCredentials | None:
    peer = request.scope.get("state", {}).get("peer")
    return peer if isinstance(peer, PeerCredentials) else None


def _missing_right(peer: PeerCredentials, right: Right) -> str:
    group = required_group(right)
    return f"uid {peer.uid} may not {right.value} here: join the group {group!r} (or be root or the daemon's own user)"


async def _refuse_web_pages() -> Response | None:
    """A page in a browser must not drive the daemon through a proxy onto this socket."""
    if "Origin" in request.headers:
        return _forbidden("Requests with an Origin header are refused on the admin socket.")
    host = request.headers.get("Host", "")
    if host not in HOSTS:
        return _forbidden(f"Host {host!r} is refused on the admin socket; accepted: {', '.join(sorted(HOSTS))}.")
    return None


async def _add_version(response: Response) -> Response:
    response.headers[VERSION_HEADER] = str(ADMIN_VERSION)
    return response


def _forbidden(message: str) -> Response:
    return _json({"error": {"message": message, "type": "forbidden", "code": "forbidden", "param": None}}, status=403)


async def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    code = _HTTP_ERRORS.get(status, "invalid_request" if status < 500 else "internal_error")
    kind = "invalid_request_error" if status < 500 else "server_error"
    message = f"{request.method} {request.path}: {error.description or error.name}"
    return _json({"error": {"message": message, "type": kind, "code": code, "param": None}}, status=status)


async def _error(error: Exception) -> Response:
    if not isinstance(error, BackendError):
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
        return _json(internal_error(), status=500)
    response = _json(error_reply(error), status=error.status)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return response


def _json(body: Mapping[str, Any], *, status: int = 200) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/json")
