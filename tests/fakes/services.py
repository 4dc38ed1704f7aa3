"""A daemon without worker processes: real configuration, registry and specs; scripted runs and a codec that takes
`FAKE` files for audio."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace
from quart_trio import QuartTrio

from audiocpp.daemon.admission import Slot
from audiocpp.daemon.busy import effective_busy_timeout_ms
from audiocpp.daemon.config.load import parse_config
from audiocpp.daemon.errors import DaemonError, InvalidRequest
from audiocpp.daemon.http.app import create_app
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.services import Services, build_services
from audiocpp.daemon.tasks import RunTiming
from audiocpp.engines.tasks import AudioFormat, AudioInfo, EncodedData, Finalized, TaskEvent, TaskRequest

MODELS = [
    {"id": "moonshine", "family": "moonshine_asr", "aliases": ["whisper-1"], "lazy": True},
    {"id": "moonshine-live", "family": "moonshine_asr", "mode": "streaming", "lazy": True},
    {"id": "piper", "family": "piper_tts", "lazy": True},
    {"id": "vad", "family": "silero_vad", "lazy": True},
]

SAMPLE_RATE_HZ = 8000
"""The rate of every fake recording."""


class FakeRun:
    """Takes input until `finish`, then answers with the scripted events. `Finalized` follows each `finalize`.

    `left` is set when the route has left the run, `completed` says whether without an error or a cancellation.
    `requests` are the first one and those it was restarted with.
    """

    def __init__(self, script: "Script", request: TaskRequest, slot: Slot) -> None:
        self.slot = slot
        self.requests = [request]
        self.pushed = bytearray()
        self.completed = False
        self.left = trio.Event()
        self._script = script
        self._inputs, self._heard = trio.open_memory_channel[str | None](1000)

    @property
    def request(self) -> TaskRequest:
        """The present one."""
        return self.requests[-1]

    async def restart(self, request: TaskRequest) -> None:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        self._inputs, self._heard = trio.open_memory_channel[str | None](1000)

    async def push(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.pushed += data
        if self._script.deaf:
            await trio.sleep_forever()

    async def finalize(self, token: str) -> None:
        await self._inputs.send(token)

    async def finish(self) -> None:
        await self._inputs.send(None)

    async def __aiter__(self) -> AsyncIterator[TaskEvent]:
        while (token := await self._heard.receive()) is not None:
            yield Finalized(token)
        for event in self._script.events:
            await trio.lowlevel.checkpoint()
            yield event
        if self._script.fails is not None:
            raise self._script.fails
        if self._script.hangs:
            await trio.sleep_forever()

    @property
    def timing(self) -> RunTiming:
        return RunTiming(queue_ms=0, load_ms=0, wall_ms=250.0, first_event_ms=10.0, input_s=1.0, output_s=0.5)


@dataclass
class Script:
    """What runs do: `refuses` stands in the way of one, `fails` ends it after its events, `hangs` never lets it end,
    `deaf` never takes a second input. `runs` are those opened."""

    events: Sequence[TaskEvent] = ()
    refuses: DaemonError | None = None
    fails: DaemonError | None = None
    hangs: bool = False
    deaf: bool = False
    runs: list[FakeRun] = field(default_factory=list)
    busy_timeouts_ms: list[int | None] = field(default_factory=list)
    opened: trio.Event = field(default_factory=trio.Event)

    @asynccontextmanager
    async def run_task(
        self, services: Services, entry: ModelEntry, request: TaskRequest, *, busy_timeout_ms: int | None = None
    ) -> AsyncIterator[FakeRun]:
        await trio.lowlevel.checkpoint()
        self.busy_timeouts_ms.append(busy_timeout_ms)
        if self.refuses is not None:
            raise self.refuses
        timeout_ms = effective_busy_timeout_ms(entry.busy_timeout_ms, busy_timeout_ms)
        async with services.slots.of(entry).slot(timeout_ms) as slot:
            run = FakeRun(self, request, slot)
            self.runs.append(run)
            self.opened.set()
            try:
                yield run
                run.completed = True
            finally:
                run.left.set()

    @property
    def run(self) -> FakeRun:
        """The only run."""
        (run,) = self.runs
        return run


class FakeDecoded:
    info = AudioInfo(container="FAKE", codec="none", sample_rate=SAMPLE_RATE_HZ, channels=1)

    def __init__(self, samples: bytes) -> None:
        self.empty = not samples
        self.duration_s = 0.0
        self._samples = samples

    async def whole(self) -> bytes:
        return b"".join([block async for block in self])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await trio.lowlevel.checkpoint()
        if self._samples:
            self.duration_s = 2.0
            yield self._samples


class FakeEncoder:
    def __init__(self, prefix: bytes) -> None:
        self._put, self._get = trio.open_memory_channel[bytes](1000)
        self._put.send_nowait(prefix)

    async def push(self, pcm: bytes) -> None:
        await self._put.send(pcm)

    def finish(self) -> None:
        self._put.close()

    async def __aiter__(self) -> AsyncIterator[EncodedData]:
        async for piece in self._get:
            if piece:
                yield EncodedData(piece)


class FakeCodecs:
    """`FAKE` and then PCM is audio, anything else is not. An encoded file is its format's name,
    three dots if it is streamed, and the PCM."""

    @asynccontextmanager
    async def decode(
        self, source: bytes | Path, *, sample_rate: int, max_seconds: float, param: str = "file"
    ) -> AsyncIterator[FakeDecoded]:
        await trio.lowlevel.checkpoint()
        data = source if isinstance(source, bytes) else await trio.Path(source).read_bytes()
        if not data.startswith(b"FAKE"):
            raise InvalidRequest(f"{param}: no audio was recognised", param=param)
        yield FakeDecoded(data[4:])

    @asynccontextmanager
    async def encode(self, fmt: str, audio: AudioFormat, *, streamed: bool) -> AsyncIterator[FakeEncoder]:
        await trio.lowlevel.checkpoint()
        yield FakeEncoder(b"" if fmt == "pcm" else fmt.upper().encode() + (b"..." if streamed else b""))


def fake_services(folder: Path, **config: Any) -> Services:
    """Services of a daemon with four entries, none installed. Needs a running event loop; nothing is started."""
    document = {"models": MODELS, "models_root": str(folder / "models"), **config}
    parsed = parse_config(document, folder=folder)
    environ = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
    services = build_services(parsed, config_path=None, environ=environ)
    return replace(services, codecs=FakeCodecs())  # type: ignore[arg-type]


def fake_app(folder: Path, script: Script | None = None, **config: Any) -> QuartTrio:
    return create_app(fake_services(folder, **config), run_task=(script or Script()).run_task)  # type: ignore[arg-type]
