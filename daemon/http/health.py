"""GET /health and the page at /."""

import html

import msgspec
import trio
from quart import Blueprint, Response

from audiocpp.daemon.backend import backend
from audiocpp.daemon.http.reply import bytes_reply, json_reply
from audiocpp.daemon.services import Services
from audiocpp.engines.placement import AUTO, BACKENDS

health = Blueprint("health", __name__)

LINKS = ("/live", "/docs", "/health", "/v1/models", "/v1/audio/voices", "/v1/devices", "/metrics")

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>audiocpp</title>
<h1>audiocpp {version}</h1>
<p>Models: {models}</p>
<p>{links}</p>
<p>Live transcription: WebSocket <code>/v1/audio/transcriptions/live</code></p>
"""


@health.get("/health")
async def get_health() -> Response:
    """Tells that the daemon serves, and what it is. Needs no key."""
    services = backend().services
    return json_reply(
        {
            "status": "ok",
            "version": services.version,
            "commit": services.commit,
            "backend": effective_backend(services),
            "models": len(services.registry.entries),
            "ui": False,
            "ui_management": services.config.ui_management,
            "uptime_s": round(trio.current_time() - services.started_at, 3),
            "placements": msgspec.to_builtins(services.residency.placements()),
        }
    )


@health.get("/")
async def get_page() -> Response:
    """A page with the version and the models."""
    services = backend().services
    models = ", ".join(f"{row.id} ({row.state})" for row in services.residency.snapshot()) or "none"
    links = " ".join(f'<a href="{link}">{link}</a>' for link in LINKS)
    page = PAGE.format(version=services.version, models=html.escape(models), links=links)
    return bytes_reply(page.encode(), content_type="text/html; charset=utf-8")


def effective_backend(services: Services) -> str:
    """The backend that models run on here: with `auto` the first whose runtime is installed."""
    if services.config.backend != AUTO:
        return services.config.backend
    return next((backend.name for backend in BACKENDS if backend.runtime in services.host.runtimes), "cpu")
