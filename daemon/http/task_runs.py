"""Runs a task of the task routes: its recording or its text in, its result out, its events on the way."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import msgspec
import trio

from audiocpp.daemon.backend import backend
from audiocpp.daemon.codecs import DecodedAudio
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.collect import model_rate_hz, recognise, spoken_language
from audiocpp.daemon.http.synthesis import encode_run, open_synthesis
from audiocpp.daemon.http.task_request import Task
from audiocpp.daemon.http.task_result import (
    StreamEvent,
    TaskResult,
    TaskTiming,
    audio_timing,
    found,
    heard,
    spoken,
    transcribed,
    wav_base64,
)
from audiocpp.engines.tasks import AudioFormat, TaskEvent

MAX_SPOKEN_BYTES = 64 << 20
"""Most PCM of one result, which lies in memory, and again in base64: 25 minutes at 22.05 kHz."""

_MEMBERS = {"input": "text", "voice": "voice_id"}
"""What families call their input -> what a request object calls it."""

Emit = Callable[[StreamEvent], Awaitable[None]]


class Performed(msgspec.Struct, frozen=True, kw_only=True):
    """A result without its timing, and what there is to say about its time.

    `recording_ms` and `rate_hz` are of the recording, `spoken_ms` of the speech; None where there is none. `ttft_ms`
    counts from the call to the first event.
    """

    result: TaskResult
    wall_ms: float
    ttft_ms: float | None
    recording_ms: float | None = None
    rate_hz: int | None = None
    spoken_ms: float | None = None

    @property
    def timing(self) -> TaskTiming:
        """Of a run that is answered as a whole."""
        if self.spoken_ms is None:
            return TaskTiming(wall_ms=self.wall_ms)
        return audio_timing(self.wall_ms, self.spoken_ms)


async def perform(
    task: Task, *, busy_timeout_ms: int | None, opened: Callable[[], None] = lambda: None, emit: Emit | None = None
) -> Performed:
    """Runs a task. `opened` is called once it has its slot and its model, `emit` with each event."""
    if task.source is None:
        with _members_named(task.at):
            return await _speak(task, busy_timeout_ms, opened, emit)
    return await _listen(task, task.source, busy_timeout_ms, opened, emit)


@contextmanager
def _members_named(at: str) -> Iterator[None]:
    """What a family refuses is named as it came in the request object at `at`."""
    try:
        yield
    except InvalidRequest as error:
        if error.param is not None:
            error.param = f"{at}.{_MEMBERS.get(error.param, error.param)}".lstrip(".")
        raise


class _Stopwatch:
    def __init__(self) -> None:
        self._started = trio.current_time()
        self.first_ms: float | None = None

    def event(self) -> None:
        if self.first_ms is None:
            self.first_ms = (trio.current_time() - self._started) * 1e3


async def check_recording(task: Task) -> None:
    """Raises what is wrong with the beginning of the task's recording."""
    if task.source is not None:
        async with _decoded(task, task.source):
            pass


def _decoded(task: Task, source: bytes | Path) -> AbstractAsyncContextManager[DecodedAudio]:
    """Bad audio ends here, before any load."""
    return backend().services.codecs.decode(
        source,
        sample_rate=model_rate_hz(task.entry),
        max_seconds=task.entry.max_audio_s,
        param=task.source_param,
    )


async def _listen(
    task: Task, source: bytes | Path, busy_timeout_ms: int | None, opened: Callable[[], None], emit: Emit | None
) -> Performed:
    entry, watch = task.entry, _Stopwatch()
    language = spoken_language(entry, task.request) or None
    async with _decoded(task, source) as audio:
        rate_hz = audio.info.sample_rate

        async def forward(event: TaskEvent) -> None:
            shown = heard(event, rate_hz=rate_hz, language=language)
            if shown is not None:
                watch.event()
                if emit is not None:
                    await emit(shown)

        made = await recognise(
            entry, task.request, audio, busy_timeout_ms=busy_timeout_ms, opened=opened, handle=forward
        )
    if entry.task == "asr":
        result = transcribed(made.text, made.segments, rate_hz=rate_hz, language=language)
    else:
        result = found(made.segments, rate_hz=rate_hz)
    return Performed(
        result=result,
        wall_ms=made.wall_ms,
        ttft_ms=watch.first_ms,
        recording_ms=made.duration_s * 1e3,
        rate_hz=rate_hz,
    )


async def _speak(task: Task, busy_timeout_ms: int | None, opened: Callable[[], None], emit: Emit | None) -> Performed:
    watch = _Stopwatch()
    pcm = bytearray()
    formats: list[AudioFormat] = []
    async with open_synthesis(task.entry, task.request, busy_timeout_ms=busy_timeout_ms) as run:
        opened()

        async def forward(piece: bytes) -> None:
            watch.event()
            pcm.extend(piece)
            if len(pcm) > MAX_SPOKEN_BYTES:
                raise _too_long()
            if emit is not None:
                await emit(StreamEvent(audio=wav_base64(piece, formats[0]), is_final=False))

        audio = await encode_run(run, "pcm", forward, begun=formats.append)
        wall_ms, spoken_ms = run.timing.wall_ms, run.timing.output_s * 1e3
    return Performed(
        result=spoken(bytes(pcm), audio),
        wall_ms=wall_ms,
        spoken_ms=spoken_ms,
        ttft_ms=watch.first_ms,
    )


def _too_long() -> InvalidRequest:
    return InvalidRequest(
        f"text: its speech is longer than the {MAX_SPOKEN_BYTES >> 20} MiB that one JSON reply holds; "
        "/v1/audio/speech can stream it",
        param="text",
    )
