"""WebSocket /v1/realtime: live transcription for clients of OpenAI's Realtime API."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from quart import websocket

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import DaemonError, InvalidRequest
from audiocpp.daemon.live.driver import SessionDriver
from audiocpp.daemon.live.messages import Move, Restarted, RunBroke
from audiocpp.daemon.live.realtime import RealtimeSession
from audiocpp.daemon.live.realtime_config import RealtimeConfig
from audiocpp.daemon.live.socket import accept, limit_writes, serve_socket
from audiocpp.daemon.registry import Registry
from audiocpp.daemon.request_fields import busy_timeout
from audiocpp.daemon.tasks import TaskRun

INTENT = "transcription"


async def realtime() -> None:
    """Live transcription as OpenAI's Realtime API has it.

    The slot is taken and the model loaded before the handshake is answered, unless there are several models and the
    client has yet to name one.
    """
    session, first = _session()
    driver = SessionDriver(session)
    refusal: DaemonError | None = None
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(_drive, driver, first)
        except DaemonError as error:
            refusal = error
        else:
            await accept()
            limit_writes(session.limits.send_timeout_ms)
            await serve_socket(driver, first=session.created())
        nursery.cancel_scope.cancel()
    if refusal is not None:
        raise refusal


def _session() -> tuple[RealtimeSession, Move | None]:
    """The session, and what its first run is of. Raises `ModelNotFound` or `InvalidRequest`."""
    intent = websocket.args.get("intent") or INTENT
    if intent != INTENT:
        raise InvalidRequest(f"intent: {intent!r} is not supported; accepted: {INTENT}", param="intent")
    busy_timeout(websocket.args.get("busy_timeout_ms"))
    services = backend().services
    config = _config(services.registry, websocket.args.get("model"))
    session = RealtimeSession(
        id=f"sess_{uuid.uuid4().hex}",
        config=config,
        registry=services.registry,
        limits=config.entry.live_ingest if config.entry else services.config.live_ingest,
        opened_s=trio.current_time(),
        shape="beta" if "realtime=v1" in websocket.headers.get("OpenAI-Beta", "") else "ga",
    )
    return session, Move(config.entry, config.request()) if config.entry else None


def _config(registry: Registry, model: str | None) -> RealtimeConfig:
    """With several models to choose from, clients that do not say which in the URL do it with `session.update`."""
    usable = [entry for entry in registry.entries.values() if entry.task == "asr" and entry.mode == "streaming"]
    if not model and len(usable) > 1:
        return RealtimeConfig(entry=None)
    return RealtimeConfig(entry=registry.resolve(model or None, task="asr", mode="streaming"))


async def _drive(driver: SessionDriver, move: Move | None, *, task_status: trio.TaskStatus[None]) -> None:
    """All runs of the session. Started once the first one is open; what stands in its way is raised."""
    stopping: trio.Event = websocket.scope["state"]["stopping"]
    started = False
    try:
        while True:
            async with _opened(move) as run:
                if started:
                    driver.hear(Restarted())
                else:
                    task_status.started()
                    started = True
                move = await driver.drive(run, stopping)
            if move is None:
                return
    except DaemonError as error:
        if not started:
            raise
        driver.hear(RunBroke(error))


@asynccontextmanager
async def _opened(move: Move | None) -> AsyncIterator[TaskRun | None]:
    if move is None:
        yield None
        return
    timeout_ms = busy_timeout(websocket.args.get("busy_timeout_ms"))
    async with backend().session(move.entry, move.request, busy_timeout_ms=timeout_ms) as run:
        yield run
