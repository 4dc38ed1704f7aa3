"""WebSocket /v1/audio/transcriptions/live: binary frames are PCM, text frames control, events come back as text."""

import json
import logging
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import trio
from quart import Blueprint, websocket
from quart.wrappers import Websocket

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.live.ingest import IngestQueue
from audiocpp.daemon.live.messages import (
    Audio,
    Close,
    Control,
    Effect,
    Finalize,
    Finish,
    Heard,
    Input,
    Push,
    RunBroke,
    RunEnded,
    Send,
    Stop,
    Tick,
)
from audiocpp.daemon.live.parameters import LiveParameters, live_parameters
from audiocpp.daemon.live.session import LiveSession
from audiocpp.daemon.tasks import TaskRun

log = logging.getLogger(__name__)

live = Blueprint("live", __name__)

OUTBOX_EVENTS = 4096
"""Events that may wait for a client that reads slowly; one more and it is dropped."""

REASON_BYTES = 123
"""What fits into a close frame."""

KEY_SUBPROTOCOL_COMPANION = "realtime"
"""Browsers that send a key as a subprotocol offer this one too, and need it accepted."""


@live.websocket("/v1/audio/transcriptions/live")
async def live_transcription() -> None:
    """Live transcription.

    The slot is taken and the model loaded before the handshake is answered, so that refusals have a status.
    """
    parameters = live_parameters(websocket.args, backend().services.registry)
    opened = backend().session(parameters.entry, parameters.request, busy_timeout_ms=parameters.busy_timeout_ms)
    async with opened as run:
        await websocket.accept(subprotocol=_subprotocol())
        await LiveConnection(websocket._get_current_object(), run, parameters).serve()  # type: ignore[attr-defined]


def _subprotocol() -> str | None:
    offered = websocket.requested_subprotocols
    return KEY_SUBPROTOCOL_COMPANION if KEY_SUBPROTOCOL_COMPANION in offered else None


class LiveConnection:
    """Performs a session's effects over one accepted WebSocket.

    One task reads the socket and never does anything else, so that pings, control messages and the close are seen
    however busy the model is. A client that leaves cancels all of it.
    """

    def __init__(self, socket: Websocket, run: TaskRun, parameters: LiveParameters) -> None:
        self._socket = socket
        self._run = run
        self._ingest = IngestQueue()
        self._outbox, self._outgoing = trio.open_memory_channel[Send | Close](OUTBOX_EVENTS)
        self._session = LiveSession(
            id=uuid.uuid4().hex,
            model=parameters.entry.id,
            audio=parameters.audio,
            limits=parameters.entry.live_ingest,
            opened_s=trio.current_time(),
            partials=parameters.partials,
            words=parameters.words,
        )
        self._send_timeout_s = parameters.entry.live_ingest.send_timeout_ms / 1e3 or math.inf
        self._state: dict[str, Any] = dict(socket.scope.get("state", {}))

    async def serve(self) -> None:
        """Returns when the session is over and its close has been sent."""
        self._perform([self._session.created()])
        async with trio.open_nursery() as nursery:
            for task in (self._receive, self._push, self._listen, self._watch_clock, self._watch_stop):
                nursery.start_soon(task)
            await self._send_all()
            nursery.cancel_scope.cancel()

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Push() | Finalize() | Finish():
                    self._ingest.put(effect)
                case Send() | Close():
                    self._post(effect)

    def _post(self, effect: Send | Close) -> None:
        try:
            self._outbox.send_nowait(effect)
        except trio.WouldBlock:
            self._abort()

    def _handle(self, heard: Input) -> None:
        self._perform(self._session.handle(heard, trio.current_time()))

    async def _receive(self) -> None:
        while True:
            message = await self._socket.receive()
            self._handle(Control(message) if isinstance(message, str) else Audio(message))
            await self._ingest.room()

    async def _push(self) -> None:
        while True:
            try:
                await self._give(await self._ingest.get())
            except DaemonError:
                return  # it is the run's error, which `_listen` gets as well and reports

    async def _give(self, work: Push | Finalize | Finish) -> None:
        match work:
            case Push(data):
                await self._run.push(data)
            case Finalize(token):
                await self._run.finalize(token)
            case Finish():
                await self._run.finish()

    async def _listen(self) -> None:
        try:
            async for event in self._run:
                self._handle(Heard(event))
        except DaemonError as error:
            self._handle(RunBroke(error))
        except Exception:
            log.exception("A live session failed")
            self._handle(RunBroke(DaemonError("internal error; the log has the details")))
        else:
            self._handle(RunEnded())

    async def _watch_clock(self) -> None:
        while True:
            # A deadline only moves later while one sleeps, or ends with the session; waking early costs nothing.
            await trio.sleep_until(min(self._session.deadline_s, trio.current_time() + 1.0))
            if self._ingest.full:
                self._session.touch(trio.current_time())
            self._handle(Tick())

    async def _watch_stop(self) -> None:
        stopping: trio.Event | None = self._state.get("stopping")
        if stopping is not None:
            await stopping.wait()
            self._handle(Stop())

    async def _send_all(self) -> None:
        async for effect in self._outgoing:
            with trio.move_on_after(self._send_timeout_s) as deadline:
                if isinstance(effect, Close):
                    await self._socket.close(effect.code, _reason(effect.reason))
                    return
                await self._socket.send(json.dumps(effect.event, ensure_ascii=False))
            if deadline.cancelled_caught:
                self._abort()
                return

    def _abort(self) -> None:
        abort: Callable[[], None] | None = self._state.get("abort")
        if abort is not None:
            abort()


def _reason(text: str) -> str:
    return text.encode()[:REASON_BYTES].decode(errors="ignore")
