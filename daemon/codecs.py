"""Media files to PCM and back, by the codec worker. The control process only moves the bytes."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from audiocpp.daemon.errors import InvalidRequest, ModelFailed, WorkerDied
from audiocpp.daemon.metrics import Metrics
from audiocpp.daemon.timings import timings
from audiocpp.daemon.worker_entry import run_codec_worker
from audiocpp.daemon.worker_run import WorkerRun
from audiocpp.daemon.workers import Worker, start_worker
from audiocpp.engines import wire
from audiocpp.engines.tasks import AudioChunk, AudioFormat, AudioInfo, EncodedData, OptionValue, TaskEvent, TaskRequest

JOBS_AT_ONCE = 2
"""Computing threads of the codec worker; further jobs take turns with them, block by block."""

_MODEL = "codec"
_CANCEL_GRACE_S = 2.0


class DecodedAudio:
    """A file being decoded. Iterate once: float32 little-endian mono blocks at the asked rate; none if it is empty."""

    def __init__(self, info: AudioInfo, first: bytes | None, rest: AsyncIterator[bytes], sample_rate: int) -> None:
        self.info = info
        self.duration_s = 0.0
        self._first = first
        self._rest = rest
        self._sample_rate = sample_rate

    @property
    def empty(self) -> bool:
        """A valid container without a single sample."""
        return self._first is None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._first is None:
            return
        yield self._counted(self._first)
        async for block in self._rest:
            yield self._counted(block)

    async def whole(self) -> bytes:
        """All of it. For audio whose length has a small bound."""
        pcm = bytearray()
        async for block in self:
            pcm += block
        return bytes(pcm)

    def _counted(self, block: bytes) -> bytes:
        self.duration_s += len(block) / 4 / self._sample_rate
        return block


class Encoder:
    """A file being encoded. `push` float32 PCM, `finish`, iterate over the encoded bytes; two tasks may do so."""

    def __init__(self, run: WorkerRun) -> None:
        self._run = run

    async def push(self, pcm: bytes) -> None:
        await self._run.push(pcm)

    def finish(self) -> None:
        self._run.finish()

    async def __aiter__(self) -> AsyncIterator[EncodedData]:
        async with aclosing(self._run.events()) as events:
            async for event in events:
                assert isinstance(event, EncodedData)
                yield event


class Codecs:
    """Decodes and encodes in a worker process that is started on first use and again after a crash."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics or Metrics()
        self._nursery: trio.Nursery | None = None
        self._worker: Worker | None = None
        self._starting = trio.Lock()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled; then the worker ends."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    @property
    def pid(self) -> int | None:
        """The codec worker's process; None when it does not run."""
        return self._worker.pid if self._worker is not None and self._worker.ended is None else None

    @asynccontextmanager
    async def decode(
        self, source: bytes | Path, *, sample_rate: int, max_seconds: float, param: str = "file"
    ) -> AsyncIterator[DecodedAudio]:
        """Decodes a file to mono at `sample_rate` Hz; its first block has been decoded when the block is entered.

        `param` is the field of the request that the file came in: errors name it.

        Raises:
            InvalidRequest: no readable audio, or a file that brings the decoder down.
            UnsupportedMedia: a container or codec that is known but not decoded here.
            BodyTooLarge: longer than `max_seconds` (also while iterating).
        """
        options: dict[str, OptionValue] = {"sample_rate": sample_rate, "max_seconds": max_seconds, "param": param}
        if isinstance(source, Path):
            options["path"] = str(source)
        job = await self._begin(TaskRequest(task="decode", options=options), source)
        try:
            yield DecodedAudio(job.info, job.first, _blocks(job.events), sample_rate)
        finally:
            await job.events.aclose()
            await _end(job.run, "decode")
            if job.alone is not None:
                job.alone.stop()

    async def _begin(self, request: TaskRequest, source: bytes | Path) -> "_DecodeJob":
        try:
            return await _open(await self._shared_worker(), request, source)
        except WorkerDied:
            # Perhaps another file did that. Alone in a process of its own, this one gets its own verdict.
            alone = await self._start()
        try:
            return replace(await _open(alone, request, source), alone=alone)
        except WorkerDied as error:
            param = str(request.options["param"])
            raise InvalidRequest(f"{param}: the decoder failed on it ({error})", param=param) from error
        except BaseException:
            alone.stop()
            raise

    @asynccontextmanager
    async def encode(self, fmt: str, audio: AudioFormat, *, streamed: bool) -> AsyncIterator[Encoder]:
        """Encodes PCM to a format of `engines.encoding`. Unless it is `streamed`, corrections follow the file."""
        worker = await self._shared_worker()
        options: dict[str, OptionValue] = {"format": fmt, "streamed": streamed}
        run = worker.open(_MODEL, TaskRequest(task="encode", audio=audio, options=options))
        try:
            yield Encoder(run)
        finally:
            await _end(run, "encode")

    async def _shared_worker(self) -> Worker:
        async with self._starting:
            if self._worker is None or self._worker.ended is not None:
                self._worker = await self._start()
            return self._worker

    async def _start(self) -> Worker:
        assert self._nursery is not None
        worker = await start_worker(
            "codec", threads=JOBS_AT_ONCE, nursery=self._nursery, on_end=self._forget, entry=run_codec_worker
        )
        command = wire.LoadModel(model=_MODEL, family="codec", files={}, runtime="", providers=[], threads=1)
        try:
            await worker.load(command)
        except ModelFailed:
            worker.kill()
            raise
        return worker

    def _forget(self, worker: Worker) -> None:
        if self._worker is worker:
            self._worker = None
            self._metrics.worker_died(_MODEL)


@dataclass(frozen=True, slots=True)
class _DecodeJob:
    """A file whose first block has been decoded. `alone`: the process made for it, ended with it."""

    run: WorkerRun
    events: AsyncGenerator[TaskEvent]
    info: AudioInfo
    first: bytes | None
    alone: Worker | None = None


async def _open(worker: Worker, request: TaskRequest, source: bytes | Path) -> _DecodeJob:
    run = worker.open(_MODEL, request)
    events = run.events()
    try:
        if isinstance(source, bytes):
            await run.push(source)
            run.finish()
        info = await anext(events)
        assert isinstance(info, AudioInfo)
        first = await anext(events, None)
    except BaseException:
        await events.aclose()
        await _end(run, "decode")
        raise
    return _DecodeJob(run, events, info, first.pcm if isinstance(first, AudioChunk) else None)


async def _blocks(events: AsyncIterator[TaskEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        assert isinstance(event, AudioChunk)
        yield event.pcm


async def _end(run: WorkerRun, phase: str) -> None:
    """Ends a run; the computing time of one that has come to its end is a phase of the request."""
    with trio.CancelScope(shield=True):
        await run.cancel(_CANCEL_GRACE_S)
    if run.done is not None:
        timings().add(phase, run.done.compute_ms)
