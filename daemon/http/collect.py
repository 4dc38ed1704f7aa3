"""Runs a model on audio or text and gathers its events, or hands them on one by one. The only place that does."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import trio

from audiocpp.daemon.backend import backend
from audiocpp.daemon.codecs import DecodedAudio
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.tasks import TaskRun
from audiocpp.engines.tasks import AudioFormat, Segment, TaskEvent, TaskRequest, TextDelta

DEFAULT_SAMPLE_RATE_HZ = 16_000

T = TypeVar("T")

Handle = Callable[[TaskEvent], Awaitable[None]]


@dataclass(slots=True)
class Recognition:
    """What a model made of a recording. `rate_hz` and `duration_s` are of the recording, `wall_ms` of the run."""

    rate_hz: int = 0
    text: str = ""
    segments: list[Segment] = field(default_factory=list)
    duration_s: float = 0.0
    wall_ms: float = 0.0

    @property
    def timing(self) -> dict[str, float]:
        """`rtf` is 0 for a recording of no length."""
        duration_ms = self.duration_s * 1e3
        rtf = self.wall_ms / duration_ms if duration_ms else 0.0
        return {"wall_ms": self.wall_ms, "audio_duration_ms": duration_ms, "rtf": rtf}


def model_rate_hz(entry: ModelEntry) -> int:
    """The rate that recordings for this model are decoded to."""
    return entry.spec.input_sample_rate_hz or DEFAULT_SAMPLE_RATE_HZ


def decoded_format(entry: ModelEntry) -> AudioFormat:
    return AudioFormat(sample_rate=model_rate_hz(entry))


def spoken_language(entry: ModelEntry, request: TaskRequest) -> str:
    """The language of a transcript, where it is known without detection; else empty."""
    languages = entry.package.languages or entry.spec.languages
    return request.language or (languages[0] if len(languages) == 1 else "")


async def recognise(
    entry: ModelEntry,
    request: TaskRequest,
    audio: DecodedAudio,
    *,
    busy_timeout_ms: int | None,
    opened: Callable[[], None] = lambda: None,
    handle: Handle | None = None,
) -> Recognition:
    """The run's whole result. A recording without a sample has an empty one, and needs no model.

    `opened` is called when nothing stands in the way any more, `handle` with each event once it has been taken in.
    """
    result = Recognition(rate_hz=audio.info.sample_rate)
    if audio.empty:
        opened()
        return result
    async with backend().run(entry, request, busy_timeout_ms=busy_timeout_ms) as run:
        opened()

        async def gather(event: TaskEvent) -> None:
            if isinstance(event, TextDelta):
                result.text += event.text
            elif isinstance(event, Segment):
                result.segments.append(event)
            if handle is not None:
                await handle(event)

        await run_on_audio(run, audio, gather)
    result.duration_s = audio.duration_s
    result.wall_ms = run.timing.wall_ms
    return result


async def run_on_audio(run: TaskRun, audio: AsyncIterable[bytes], handle: Handle) -> None:
    """Pushes `audio` while handling the run's events, until the run has ended."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_feed, run, audio)
            async with iterated(run) as events:
                async for event in events:
                    await handle(event)
            nursery.cancel_scope.cancel()  # a run may end before it has taken all of its input
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def _feed(run: TaskRun, audio: AsyncIterable[bytes]) -> None:
    async with iterated(audio) as blocks:
        async for block in blocks:
            await run.push(block)
    await run.finish()


@asynccontextmanager
async def iterated(source: AsyncIterable[T]) -> AsyncIterator[AsyncIterator[T]]:
    """An iterator that ends with the block: a generator left half way is otherwise closed at some later time."""
    iterator = aiter(source)
    try:
        yield iterator
    finally:
        if isinstance(iterator, AsyncGenerator):
            await iterator.aclose()


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error of a nursery whose tasks failed of one cause; the group itself when a cancellation is among them."""
    _, others = group.split(Exception)
    if others is not None:
        return group
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
