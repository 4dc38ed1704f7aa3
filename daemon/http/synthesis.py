"""Runs a model on text and encodes what it says, as a whole or as it comes."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import msgspec
import trio

from audiocpp.daemon.backend import backend
from audiocpp.daemon.codecs import Encoder
from audiocpp.daemon.errors import RunFailed
from audiocpp.daemon.http.collect import first_error, iterated
from audiocpp.daemon.http.connection import served_request
from audiocpp.daemon.http.encoded_file import EncodedFile
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.tasks import TaskRun
from audiocpp.engines.tasks import AudioChunk, AudioFormat, EncodedData, TaskEvent, TaskRequest

Handle = Callable[[EncodedData], Awaitable[None]]


class Synthesis(msgspec.Struct, frozen=True, kw_only=True):
    """An encoded file and how it came about."""

    file: EncodedFile
    wall_ms: float
    duration_ms: float

    @property
    def rtf(self) -> float:
        return self.wall_ms / self.duration_ms if self.duration_ms else 0.0

    @property
    def timing(self) -> dict[str, float]:
        return {"wall_ms": self.wall_ms, "audio_duration_ms": self.duration_ms, "rtf": self.rtf}


async def synthesize(
    entry: ModelEntry, request: TaskRequest, *, container: str, busy_timeout_ms: int | None
) -> Synthesis:
    """Speaks the whole text into one file, which exists until the reply is complete."""
    file = EncodedFile(backend().spool)
    served_request().resources.callback(file.close)

    async def gather(piece: EncodedData) -> None:
        if piece.at is None:
            await file.append(piece.data)
        else:
            await file.replace(piece.at, piece.data)

    async with open_synthesis(entry, request, busy_timeout_ms=busy_timeout_ms) as run:
        await _encode(run, container, gather, streamed=False)
        timing = run.timing
    return Synthesis(file=file, wall_ms=timing.wall_ms, duration_ms=timing.output_s * 1e3)


@asynccontextmanager
async def open_synthesis(
    entry: ModelEntry, request: TaskRequest, *, busy_timeout_ms: int | None
) -> AsyncIterator[TaskRun]:
    async with backend().run(entry, request, busy_timeout_ms=busy_timeout_ms) as run:
        await run.finish()  # the text is the whole input
        yield run


async def encode_run(
    run: TaskRun,
    container: str,
    handle: Callable[[bytes], Awaitable[None]],
    *,
    begun: Callable[[AudioFormat], None] = lambda _: None,
) -> AudioFormat:
    """Hands on the encoded pieces of what the run generates, as they are made. Returns its format, which `begun` is
    called with before the first piece.

    Raises `RunFailed` when the run ends without audio.
    """

    async def handle_data(piece: EncodedData) -> None:
        await handle(piece.data)

    return await _encode(run, container, handle_data, streamed=True, begun=begun)


async def _encode(
    run: TaskRun,
    container: str,
    handle: Handle,
    *,
    streamed: bool,
    begun: Callable[[AudioFormat], None] = lambda _: None,
) -> AudioFormat:
    async with aclosing(_chunks(run)) as chunks:
        first = await anext(chunks, None)
        if first is None:
            raise RunFailed("the model generated no audio")
        audio = AudioFormat(sample_rate=first.sample_rate, channels=first.channels)
        begun(audio)
        async with backend().services.codecs.encode(container, audio, streamed=streamed) as encoder:
            await _transcode(chunks, first, encoder, handle)
    return audio


async def _transcode(chunks: AsyncIterator[AudioChunk], first: AudioChunk, encoder: Encoder, handle: Handle) -> None:
    try:
        async with trio.open_nursery() as nursery, iterated(encoder) as pieces:
            nursery.start_soon(_push, encoder, first, chunks)
            async for piece in pieces:
                await handle(piece)
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def _chunks(run: TaskRun) -> AsyncGenerator[AudioChunk]:
    async with iterated(run) as events:
        event: TaskEvent
        async for event in events:
            if isinstance(event, AudioChunk):
                yield event


async def _push(encoder: Encoder, first: AudioChunk, rest: AsyncIterator[AudioChunk]) -> None:
    await encoder.push(first.pcm)
    async for chunk in rest:
        await encoder.push(chunk.pcm)
    encoder.finish()
