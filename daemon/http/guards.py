"""Who may use the API: the checks before every route. A page on the web must not drive the daemon."""

import hmac
import ipaddress
from urllib.parse import urlsplit

from quart import Response, has_websocket_context, request, websocket
from quart.wrappers.base import BaseRequestWebsocket
from quart_trio import QuartTrio

from audiocpp.daemon.backend import backend
from audiocpp.daemon.config import ApiKeyFile, ServerConfig
from audiocpp.daemon.errors import ConfigError, Forbidden, Unauthorized

OPEN_PATHS = frozenset({"/health", "/openapi.json", "/docs", "/live"})
"""Served without a key: supervisors and load balancers need none, and the description and the page say nothing of this
daemon."""

OPEN_FILES = "/live/"
"""What paths of the page's own files begin with."""

KEY_SUBPROTOCOL = "openai-insecure-api-key."
"""How browsers send a key with a WebSocket: as a subprotocol, since they cannot set headers (OpenAI's client)."""

EXPOSED_HEADERS = (
    "X-AudioCPP-Wall-Ms, X-AudioCPP-Audio-Duration-Ms, X-AudioCPP-RTF, X-AudioCPP-Voice, "
    "X-Request-Id, Server-Timing, Retry-After"
)


def register(app: QuartTrio) -> None:
    app.before_request(_check_request)
    app.before_websocket(_check_websocket)
    app.after_request(_add_cors)


async def _check_request() -> Response | None:
    _check_host(request)
    _check_origin(request)
    if request.method == "OPTIONS" and _answers_options(backend().services.config):
        return _preflight_reply()
    _check_key(request)
    return None


async def _check_websocket() -> None:
    _check_host(websocket)
    _check_origin(websocket)
    _check_key(websocket)


async def _add_cors(response: Response) -> Response:
    origin = request.headers.get("Origin")
    if origin is None or not _is_allowed(origin, backend().services.config.cors_origins):
        return response
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
    response.headers.add("Vary", "Origin")
    return response


def _answers_options(config: ServerConfig) -> bool:
    """Whether there are pages that ask first: of the origins that are let in, or the server's own."""
    return config.ui or config.cors_origins not in ("", ())


def _preflight_reply() -> Response:
    """The same on every path, also for one that does not exist."""
    response = Response("", status=204, content_type="text/plain")
    # The wildcard does not cover Authorization (Fetch standard).
    response.headers["Access-Control-Allow-Headers"] = "*, Authorization" if backend().api_keys else "*"
    response.headers["Access-Control-Allow-Methods"] = "GET, POST"
    return response


def is_local(connection: BaseRequestWebsocket) -> bool:
    """Whether the request came in on a listener that only this machine reaches."""
    return bool(connection.scope.get("state", {}).get("loopback", True))


def _check_host(connection: BaseRequestWebsocket) -> None:
    """A name that resolves to this machine makes another site's page same-origin (DNS rebinding)."""
    host = connection.headers.get("Host", "")
    if host and is_local(connection) and not _is_loopback(host):
        raise Forbidden(
            f"Host {host!r} is not accepted on a loopback listener; "
            "accepted are localhost, 127.0.0.1 and [::1], with any port"
        )


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _check_origin(connection: BaseRequestWebsocket) -> None:
    origin = connection.headers.get("Origin")
    if origin is None or _is_allowed(origin, backend().services.config.cors_origins):
        return
    if _netloc(origin) != connection.headers.get("Host", "").lower():
        raise Forbidden(f"Origin {origin!r} is not accepted: it is another site and not in cors_origins")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _is_allowed(origin: str, accepted: str | tuple[str, ...]) -> bool:
    accepted = (accepted,) if isinstance(accepted, str) else accepted
    return "*" in accepted or origin.lower() in {entry.lower().rstrip("/") for entry in accepted if entry}


def _check_key(connection: BaseRequestWebsocket) -> None:
    keys = backend().api_keys
    if not keys or connection.path in OPEN_PATHS or connection.path.startswith(OPEN_FILES):
        return
    shown = shown_key(connection)
    if shown is None:
        raise Unauthorized("an API key is required: Authorization: Bearer KEY")
    if not any(hmac.compare_digest(shown.encode(), key.encode()) for key in keys):
        raise Unauthorized("the API key is not accepted")


def shown_key(connection: BaseRequestWebsocket) -> str | None:
    scheme, _, key = connection.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    if not has_websocket_context():
        return None
    for name in websocket.requested_subprotocols:
        if name.startswith(KEY_SUBPROTOCOL):
            return name.removeprefix(KEY_SUBPROTOCOL)
    return connection.args.get("api_key")


def read_api_keys(config: ServerConfig) -> frozenset[str]:
    """The configured keys. Raises `ConfigError` when their file cannot be read or holds none."""
    if not isinstance(config.api_keys, ApiKeyFile):
        return frozenset(config.api_keys)
    try:
        lines = config.api_keys.file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"api_keys.file: cannot be read: {error}") from error
    keys = frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not keys:
        raise ConfigError(f"api_keys.file: {config.api_keys.file} holds no key")
    return keys
