"""GET /live: a page that transcribes what its microphone hears. It needs no key; what it asks for does."""

import re
from pathlib import Path

from quart import Response, request

from audiocpp.daemon.errors import NotFound
from audiocpp.daemon.http.reply import bytes_reply

FILES = Path(__file__).parents[1] / "web" / "live"
CONTENT_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript"}
PAGE = "page.html"
ASSETS = frozenset({"page.css", "app.js", "session.js", "sources.js", "worklet.js"})

_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]+")


async def live_page() -> Response:
    """A page that transcribes what its microphone hears. Needs no key itself."""
    return _file(PAGE)


async def live_page_file(name: str) -> Response:
    """A part of that page."""
    if name not in ASSETS:
        raise NotFound(f"unknown endpoint: {request.path}")
    return _file(name)


def _file(name: str) -> Response:
    path = FILES / name
    headers = {
        "Content-Security-Policy": _policy(request.headers.get("Host", "")),
        "Permissions-Policy": "microphone=(self)",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }
    return bytes_reply(path.read_bytes(), content_type=CONTENT_TYPES[path.suffix], headers=headers)


def _policy(host: str) -> str:
    """Nothing but the page's own files and its own daemon. Older browsers take `'self'` for HTTP only."""
    sockets = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    own = f"script-src 'self'; style-src 'self'; connect-src 'self'{sockets}; img-src data:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
