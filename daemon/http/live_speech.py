"""WebSocket /v1/audio/speech/live: text in pieces, PCM16 while it is made."""

import math
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

import trio
from msgspec.structs import replace
from quart import websocket

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import DaemonError, InvalidRequest, RunFailed
from audiocpp.daemon.http.speech_request import Speech, SpeechBody, speech_of
from audiocpp.daemon.http.synthesis import encode_run
from audiocpp.daemon.live.close_codes import close_code
from audiocpp.daemon.live.events import error_event
from audiocpp.daemon.live.messages import Close, Send
from audiocpp.daemon.live.socket import GOODBYE_S, accept, close, limit_writes, send
from audiocpp.daemon.live.speech_session import Finish, Flushed, Say, SpeechEffect, SpeechSession
from audiocpp.daemon.live.speech_text import SpeechText
from audiocpp.daemon.request_fields import busy_timeout
from audiocpp.daemon.request_options import COPIED_SCALARS
from audiocpp.daemon.serving.pieces import Piece
from audiocpp.daemon.tasks import TaskRun
from audiocpp.engines.tasks import AudioChunk, AudioFormat

TICK_S = 1.0
QUEUE_CHARS = 64 << 10
"""An hour of speech. More text is not read before some of it has been spoken."""

SPOKEN_TOGETHER_CHARS = 2000
"""Sentences that wait are given to the model together, which prepares the next while one is heard."""


async def live_speech() -> None:
    """Speaks a text that comes in pieces.

    The slot is taken and the model loaded before the handshake is answered, so that refusals have a status.
    """
    wanted = await speech_of(speech_parameters(websocket.args))
    nothing = replace(wanted.request, text="")
    async with backend().session(wanted.entry, nothing, busy_timeout_ms=wanted.busy_timeout_ms) as run:
        audio = await _format(run, wanted)
        await accept()
        await _LiveSpeech(run, wanted, audio).serve()
    await trio.sleep(GOODBYE_S)  # ends when the client answers the close


def speech_parameters(query: Mapping[str, str]) -> SpeechBody:
    """The body of a speech request that has everything but its text. Raises `InvalidRequest`."""
    given = {name: query.get(name) or None for name in ("model", "voice", "language", "instructions", *COPIED_SCALARS)}
    return SpeechBody(
        input="-",
        response_format="pcm",
        stream_format="audio",
        speed=_number(query.get("speed"), "speed"),
        busy_timeout_ms=busy_timeout(query.get("busy_timeout_ms")),
        **given,  # type: ignore[arg-type]
    )


def _number(text: str | None, param: str) -> float | None:
    if not text:
        return None
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number):
            return number
    raise InvalidRequest(f"{param}: {text!r} is not a number", param=param)


async def _format(run: TaskRun, wanted: Speech) -> AudioFormat:
    """The format of what the model speaks. Where its package does not say it, the model is heard with one letter."""
    if rate_hz := wanted.entry.package.output_sample_rate_hz:
        return AudioFormat(sample_rate=rate_hz)
    await run.restart(replace(wanted.request, text="a"))
    await run.finish()
    async for event in run:
        if isinstance(event, AudioChunk):
            return AudioFormat(sample_rate=event.sample_rate, channels=event.channels)
    raise RunFailed("the model generated no audio")


class _LiveSpeech:
    """An accepted connection. One task reads, one speaks; text waits between them, bounded."""

    def __init__(self, run: TaskRun, wanted: Speech, audio: AudioFormat) -> None:
        entry = wanted.entry
        self._run = run
        self._wanted = wanted
        self._audio = audio
        self._session = SpeechSession(
            text=SpeechText(wanted.request.language or next(iter(entry.package.languages), "en")),
            limits=entry.live_ingest,
            opened_s=trio.current_time(),
        )
        self._queue: deque[Say | Flushed | Finish] = deque()
        self._changed = trio.Event()
        self._speaking = False
        self._first_text_s: float | None = None
        self._ttft_ms: float | None = None
        self._sent_bytes = 0
        limit_writes(entry.live_ingest.send_timeout_ms)

    async def serve(self) -> None:
        """Returns when the close has been sent."""
        fixed = {"model": self._wanted.entry.id, "voice": self._wanted.voice}
        made = {"sample_rate": self._audio.sample_rate, "channels": self._audio.channels}
        await send(Send({"type": "speech.created", **fixed, **made}))
        async with trio.open_nursery() as nursery:
            for task in (self._receive, self._watch_clock, self._watch_stop):
                nursery.start_soon(task, nursery.cancel_scope)
            await self._speak_all()
            nursery.cancel_scope.cancel()

    async def _perform(self, effects: list[SpeechEffect], scope: trio.CancelScope) -> None:
        for effect in effects:
            match effect:
                case Send():
                    await send(effect)
                case Close():
                    await close(effect)
                    scope.cancel()
                case _:
                    self._queue.append(effect)
        self._notify()

    async def _receive(self, scope: trio.CancelScope) -> None:
        text = ""
        while True:
            piece = cast("Piece", await websocket.receive())
            now_s = trio.current_time()
            if isinstance(piece.data, bytes):
                await self._perform(self._session.binary(now_s) if piece.last else [], scope)
                continue
            text += piece.data
            if piece.last:
                self._first_text_s = self._first_text_s or now_s
                await self._perform(self._session.control(text, now_s), scope)
                text = ""
            while sum(len(work.text) for work in self._queue if isinstance(work, Say)) > QUEUE_CHARS:
                await self._changed.wait()

    async def _watch_clock(self, scope: trio.CancelScope) -> None:
        while True:
            await trio.sleep_until(min(self._session.deadline_s, trio.current_time() + TICK_S))
            busy = self._speaking or bool(self._queue)
            await self._perform(self._session.expire(trio.current_time(), speaking=busy), scope)

    async def _watch_stop(self, scope: trio.CancelScope) -> None:
        stopping: trio.Event = websocket.scope["state"]["stopping"]
        await stopping.wait()
        await self._perform(self._session.stop(), scope)

    async def _speak_all(self) -> None:
        """Speaks what comes until the end of it, or until the model fails."""
        while True:
            while not self._queue:
                await self._changed.wait()
            work = self._queue.popleft()
            match work:
                case Say(text):
                    if error := await self._speak(self._with_what_waits(text)):
                        await send(error_event(error.message, error.code, kind=error.type, param=error.param))
                        await close(Close(close_code(error), error.code))
                        return
                case Flushed(token):
                    await send(Send({"type": "speech.flushed", "id": token}))
                case Finish(code):
                    await send(Send({"type": "speech.audio.done", "timing": self._timing}))
                    await close(Close(code))
                    return

    def _with_what_waits(self, text: str) -> str:
        while self._queue and isinstance(following := self._queue[0], Say):
            if len(text) + len(following.text) > SPOKEN_TOGETHER_CHARS:
                break
            self._queue.popleft()
            text = f"{text} {following.text}"
        self._notify()
        return text

    async def _speak(self, text: str) -> DaemonError | None:
        """Returns what went wrong. Text without anything that can be spoken is no error: more may follow."""
        self._speaking = True
        try:
            await self._run.restart(replace(self._wanted.request, text=text))
            await self._run.finish()
            await encode_run(self._run, "pcm", self._send_audio, begun=self._check)
        except DaemonError as error:
            nothing = isinstance(error, InvalidRequest) and error.param == "input"
            return None if nothing else error
        finally:
            self._speaking = False
        return None

    def _check(self, audio: AudioFormat) -> None:
        if (audio.sample_rate, audio.channels) != (self._audio.sample_rate, self._audio.channels):
            raise RunFailed(f"the model changed its format to {audio.sample_rate} Hz, {audio.channels} channels")

    async def _send_audio(self, pcm: bytes) -> None:
        if not pcm:
            return
        if self._ttft_ms is None and self._first_text_s is not None:
            self._ttft_ms = (trio.current_time() - self._first_text_s) * 1e3
        self._sent_bytes += len(pcm)
        await websocket.send(pcm)

    @property
    def _timing(self) -> dict[str, float | None]:
        frames = self._sent_bytes / 2 / self._audio.channels
        return {"ttft_ms": self._ttft_ms, "audio_ms": frames / self._audio.sample_rate * 1e3}

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
