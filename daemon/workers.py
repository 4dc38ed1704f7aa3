"""Worker processes, seen from the control process: spawned from the fork server, spoken to, watched, ended.

Who is loaded where, and why, is residency's business.
"""

import itertools
import logging
import signal
import socket
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess

import trio

from audiocpp.daemon.errors import BodyTooLarge, DaemonError, InsufficientMemory, ModelFailed, WorkerDied
from audiocpp.daemon.worker_entry import run_worker
from audiocpp.daemon.worker_run import WorkerRun
from audiocpp.engines import wire
from audiocpp.engines.tasks import TaskRequest

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
_LEAVE_S = 0.2
_REAP_S = 5.0


Entry = Callable[..., None]
"""What a new worker process runs: called with its socket, `threads` and `name`. Importable, and cheap to import."""


def _spawn(name: str, threads: int, entry: Entry) -> tuple[ForkServerProcess, socket.socket]:
    try:
        ours, theirs = socket.socketpair()
        with theirs:
            process = ForkServerProcess(target=entry, args=(theirs,), kwargs={"threads": threads, "name": name})
            process.start()
    except (OSError, EOFError) as error:  # no descriptors or memory left, or no fork server to be had
        raise ModelFailed(f"no worker process could be started: {error}") from error
    return process, ours


class Worker:
    """A running worker process. Use `start_worker`; `serve` runs in a nursery until the process has ended."""

    def __init__(self, name: str, process: ForkServerProcess, connection: socket.socket) -> None:
        self.name = name
        self.pid: int = process.pid or 0
        self.heartbeat: wire.Heartbeat | None = None
        self.heartbeat_at = trio.current_time()
        self._process = process
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(connection))
        self._run_ids = itertools.count(1)
        self._runs: dict[int, WorkerRun] = {}
        self._answers: dict[tuple[str, str], _Answer] = {}
        self._outgoing: list[bytearray] = []
        self._outgoing_changed = trio.Event()
        self._ended: str | None = None
        self.exit_error: DaemonError | None = None
        """What its runs were told when the process had ended."""
        self.verdict: Callable[[], DaemonError | None] = lambda: None
        """Asked when the process has ended: what is known of the reason beyond its exit status."""

    @property
    def idle(self) -> bool:
        """No run is open and no model is being loaded."""
        return not self._runs and not self._answers

    @property
    def ended(self) -> str | None:
        """Why the process has ended; None while it lives."""
        return self._ended

    async def serve(self, on_end: Callable[["Worker"], None]) -> None:
        """Moves messages until the process ends, then fails what was open and calls `on_end`. Never raises for it."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_all)
                await self._receive_all()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._reap()
            on_end(self)

    async def _send_all(self) -> None:
        try:
            while True:
                while self._outgoing:
                    batch, self._outgoing = self._outgoing, []
                    await self._stream.send_all(b"".join(batch))
                await self._outgoing_changed.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the receiving side sees the end too, and says so

    async def _receive_all(self) -> None:
        reader = wire.FrameReader()
        try:
            while data := await self._stream.receive_some(_READ_BYTES):
                for body in reader.feed(data):
                    self._receive(wire.decode_reply(body))
        except trio.BrokenResourceError:
            return
        except wire.WireError:
            log.exception("worker %s sent garbage and is ended", self.name)
            self.kill()

    def _receive(self, reply: wire.Reply) -> None:
        match reply:
            case wire.Event(run_id) | wire.Consumed(run_id) | wire.RunDone(run=run_id) | wire.RunError(run=run_id):
                run = self._runs.get(run_id)
                if run is not None:
                    run.receive(reply)
                if isinstance(reply, wire.RunDone | wire.RunError):
                    self._runs.pop(run_id, None)
            case wire.Loaded(model=model) | wire.LoadFailed(model=model):
                self._settle(("load", model), reply)
            case wire.Unloaded(model):
                self._settle(("unload", model), reply)
            case wire.Heartbeat():
                self.heartbeat = reply
                self.heartbeat_at = trio.current_time()
            case wire.Ready():
                log.debug("worker %s is ready, pid %d", self.name, reply.pid)

    async def _reap(self) -> None:
        with trio.move_on_after(_LEAVE_S):
            await trio.lowlevel.wait_readable(self._process.sentinel)
        self.kill()
        with trio.move_on_after(_REAP_S):
            await trio.lowlevel.wait_readable(self._process.sentinel)
        self._ended = _describe_exit(self._process.exitcode)
        await self._stream.aclose()
        if self._process.exitcode is not None:
            self._process.close()
        error: DaemonError = WorkerDied(f"the worker process of {self.name} ended during the request: {self._ended}")
        if known := self.verdict():
            self._ended, error = f"{self._ended}: {known.message}", known
        self.exit_error = error
        for run in list(self._runs.values()):
            run.fail(error)
        self._runs.clear()
        for answer in list(self._answers.values()):
            answer.settle(error)

    def kill(self) -> None:
        """Ends the process at once. `serve` sees it and cleans up."""
        if self._ended is None:
            try:
                self._process.kill()
            except ProcessLookupError:
                log.debug("worker %s had ended already", self.name)

    def stop(self) -> None:
        """Asks the process to leave; it does so when the computation in progress allows."""
        self.send(wire.Shutdown())

    def send(self, command: wire.Command) -> None:
        """Queues a command. Bounded by the runs' windows; a worker that has ended takes nothing."""
        if self._ended is None:
            self._send_frame(wire.encode(command))

    def _send_frame(self, frame: bytearray) -> None:
        self._outgoing.append(frame)
        self._outgoing_changed.set()
        self._outgoing_changed = trio.Event()

    def open(self, model: str, request: TaskRequest) -> WorkerRun:
        """Opens a run. Raises `WorkerDied` when the process has ended, `BodyTooLarge` for a request beyond a frame."""
        if self._ended is not None:
            raise WorkerDied(f"the worker process of {self.name} has ended: {self._ended}")
        run = WorkerRun(next(self._run_ids), model, self.send)
        frame = wire.encode(wire.OpenRun(run.id, model, request))
        if len(frame) > wire.MAX_FRAME_BYTES:
            limit = f"at most {wire.MAX_FRAME_BYTES} are accepted"
            raise BodyTooLarge(f"the texts and the recording of the request have {len(frame)} bytes; {limit}")
        self._runs[run.id] = run
        self._send_frame(frame)
        return run

    def abort(self, model: str, error: Exception) -> None:
        """Cancels the open runs of a model; their requests fail with `error`."""
        for run in list(self._runs.values()):
            if run.model == model:
                self.send(wire.CancelRun(run.id))
                run.fail(error)

    def condemn(self, error: DaemonError) -> None:
        """Ends the process for what it did: its open runs and loads fail with `error`."""
        log.error("worker %s is ended: %s", self.name, error.message, extra={"event": "worker_condemned"})
        for run in self._runs.values():
            run.fail(error)
        for answer in self._answers.values():
            answer.settle(error)
        self.kill()

    async def load(self, command: wire.LoadModel) -> wire.Loaded:
        """Loads a model. Raises `ModelFailed`, `InsufficientMemory` or `WorkerDied`."""
        if self._ended is not None:
            raise WorkerDied(f"the worker process of {self.name} has ended: {self._ended}")
        reply = await self._ask(("load", command.model), command)
        if isinstance(reply, wire.LoadFailed):
            kind = InsufficientMemory if reply.code == "insufficient_memory" else ModelFailed
            raise kind(reply.message, param=reply.param)
        assert isinstance(reply, wire.Loaded)
        return reply

    async def unload(self, model: str) -> None:
        """Closes a model that has no open run. Raises `WorkerDied`."""
        await self._ask(("unload", model), wire.UnloadModel(model))

    async def _ask(self, key: tuple[str, str], command: wire.Command) -> wire.Reply:
        answer = self._answers[key] = _Answer()
        self.send(command)
        try:
            return await answer.wait()
        finally:
            self._answers.pop(key, None)

    def _settle(self, key: tuple[str, str], reply: wire.Reply) -> None:
        if key in self._answers:
            self._answers[key].settle(reply)


class _Answer:
    """A reply that is being waited for."""

    def __init__(self) -> None:
        self._arrived = trio.Event()
        self._value: wire.Reply | DaemonError | None = None

    def settle(self, value: wire.Reply | DaemonError) -> None:
        if not self._arrived.is_set():
            self._value = value
            self._arrived.set()

    async def wait(self) -> wire.Reply:
        await self._arrived.wait()
        if isinstance(self._value, DaemonError):
            raise self._value
        assert self._value is not None
        return self._value


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "it did not answer and could not be reaped"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"


async def start_worker(
    name: str,
    *,
    threads: int,
    nursery: trio.Nursery,
    on_end: Callable[[Worker], None],
    entry: Entry = run_worker,
) -> Worker:
    """Forks a worker and serves it in `nursery`. `on_end` is called when the process has ended, whatever the reason."""
    process, connection = await trio.to_thread.run_sync(_spawn, name, threads, entry)
    worker = Worker(name, process, connection)
    nursery.start_soon(worker.serve, on_end)
    return worker
