"""The public HTTP app: all routes, and the guards, limits and error replies around them."""

from quart import websocket
from quart.ctx import WebsocketContext
from quart.typing import ResponseReturnValue
from quart_trio import QuartTrio

from audiocpp.daemon.backend import EXTENSION, Backend, RunTask
from audiocpp.daemon.frontends import WEBSOCKET
from audiocpp.daemon.http import errors, guards
from audiocpp.daemon.http.batches import batches
from audiocpp.daemon.http.bridge import bridge
from audiocpp.daemon.http.connection import HttpConnection, ServedRequest, WebSocketConnection
from audiocpp.daemon.http.description import description
from audiocpp.daemon.http.devices import devices
from audiocpp.daemon.http.health import health
from audiocpp.daemon.http.live import live
from audiocpp.daemon.http.metrics import PresentState, metrics
from audiocpp.daemon.http.models import models
from audiocpp.daemon.http.speech import speech
from audiocpp.daemon.http.tasks import tasks
from audiocpp.daemon.http.transcriptions import transcriptions
from audiocpp.daemon.http.voices import voices
from audiocpp.daemon.services import Services
from audiocpp.daemon.spool import Spool
from audiocpp.daemon.tasks import run_task

BLUEPRINTS = (health, description, metrics, devices, models, voices, speech, transcriptions, tasks, batches, live)


class _App(QuartTrio):
    """`bridges`: a WebSocket to a path that is none brings requests to it."""

    asgi_http_class = HttpConnection
    asgi_websocket_class = WebSocketConnection
    request_class = ServedRequest
    bridges = False

    async def dispatch_websocket(self, websocket_context: WebsocketContext | None = None) -> ResponseReturnValue | None:
        if self.bridges and websocket.routing_exception is not None:
            await bridge()
            return None
        return await super().dispatch_websocket(websocket_context)


def create_app(services: Services, *, run_task: RunTask = run_task) -> QuartTrio:
    """Builds the app. Raises `ConfigError` when the API keys cannot be read."""
    app = _App("audiocpp", static_folder=None)
    # Quart cuts replies and bodies at limits of its own; ours are applied where bodies are read and runs are made.
    app.config.update(MAX_CONTENT_LENGTH=None, BODY_TIMEOUT=None, RESPONSE_TIMEOUT=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # OPTIONS is answered by the guards
    app.bridges = services.config.frontend_listener == WEBSOCKET
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    app.url_map.redirect_defaults = False
    backend = app.extensions[EXTENSION] = Backend(
        services=services,
        run_task=run_task,
        spool=Spool(services.spool_dir, max_bytes=services.config.max_spool_bytes),
        api_keys=guards.read_api_keys(services.config),
    )
    services.metrics.watch(PresentState(backend))
    guards.register(app)
    errors.register(app)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    return app
