"""The optional frontends of the public listener: TLS, and requests in WebSocket messages."""

import ssl
from collections.abc import Mapping

from audiocpp.daemon.config import ServerConfig
from audiocpp.daemon.errors import ConfigError
from audiocpp.daemon.serving.tls import server_context

HTTPS = "https"
WEBSOCKET = "websocket"

FRONTENDS: Mapping[str, frozenset[str]] = {HTTPS: frozenset({"cert_file", "key_file"}), WEBSOCKET: frozenset()}
"""Name -> its options."""


def check_frontend(config: ServerConfig) -> ssl.SSLContext | None:
    """What encrypts the connections of the public listener; None: nothing.

    Raises `ConfigError` for a frontend or an option that does not exist, or files that cannot be used.
    """
    name = config.frontend_listener
    if not name:
        return None
    if name not in FRONTENDS:
        raise ConfigError(f"frontend_listener: {name!r} is none of {', '.join(FRONTENDS)}")
    for option in config.frontend_options:
        if option not in FRONTENDS[name]:
            accepted = ", ".join(sorted(FRONTENDS[name])) or "none"
            raise ConfigError(f"frontend_options.{option}: not an option of {name}; accepted: {accepted}")
    return _tls(config.frontend_options) if name == HTTPS else None


def _tls(options: Mapping[str, str]) -> ssl.SSLContext:
    cert_file, key_file = options.get("cert_file"), options.get("key_file")
    if not cert_file:
        raise ConfigError("frontend_options.cert_file: https needs a certificate in PEM, and its key_file")
    for name, path in options.items():
        try:
            with open(path, "rb"):  # noqa: PTH123 - of the configuration
                pass
        except OSError as error:
            raise ConfigError(f"frontend_options.{name}: {path} cannot be read: {error.strerror}") from error
    try:
        return server_context(cert_file, key_file)
    except OSError as error:
        raise ConfigError(
            f"frontend_options: {cert_file} and {key_file} cannot be used: {error.strerror or error}"
        ) from error
