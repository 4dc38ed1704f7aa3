"""The worker process: loads models, runs their families, answers over one socket. The other end is the daemon.

The main thread reads commands, one thread drives runs, as many as there are cores compute. The process leaves when
its socket closes, when its parent (the fork server) dies, or on `Shutdown`.
"""

import logging
import os
import signal
import socket
import threading
import time
from pathlib import Path

from audiocpp.engines import process, wire
from audiocpp.engines.errors import EngineError, LoadError, OutOfMemory
from audiocpp.engines.families import find_family
from audiocpp.engines.family import Data, End, Finalize, LoadContext, LoadedModel, Run
from audiocpp.engines.graph import Graph, GraphOptions
from audiocpp.engines.run_driver import Driver

log = logging.getLogger(__name__)

_OOM_SCORE_ADJ = 500
_READ_BYTES = 1 << 20


def worker_main(connection: socket.socket, *, threads: int, name: str, niceness: int = 0) -> None:
    """Serves `connection` until it closes. The entry point of a child of the fork server.

    `niceness` is added to that of the fork server, before any other thread exists: all threads inherit it.
    """
    os.nice(niceness)
    _become_worker(name)
    Worker(connection, threads=threads).serve()
    # Interpreter shutdown would wait for a graph run that ignores its terminate flag.
    logging.shutdown()
    os._exit(0)


def _become_worker(name: str) -> None:
    """Ties this process to its parent, lets it go first when memory is short, and shields it from group signals."""
    process.die_with_parent()
    process.use_one_heap()
    # A terminal's Ctrl-C and a service manager's SIGTERM reach every process; the daemon alone decides when to leave.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE_ADJ))
        Path("/proc/self/comm").write_text(name[:15])
    except OSError as error:
        log.info("this process keeps the name and score it was born with: %s", error)


class Worker:
    """One worker process's state. `connection` is owned by the worker and closed by it."""

    def __init__(self, connection: socket.socket, *, threads: int) -> None:
        self._connection = connection
        self._send_lock = threading.Lock()
        self._models: dict[str, LoadedModel] = {}
        self._driver = Driver(self._send, on_idle=process.give_back_freed_memory)
        self._threads = threads

    def serve(self) -> None:
        """Reads commands until the socket closes or `Shutdown` comes."""
        for number in range(self._threads):
            threading.Thread(target=self._driver.compute, name=f"compute-{number}", daemon=True).start()
        threading.Thread(target=self._driver.drive, name="drive", daemon=True).start()
        self._send(wire.Ready(os.getpid()))
        reader = wire.FrameReader()
        while data := self._read():
            for body in reader.feed(data):
                command = wire.decode_command(body)
                if isinstance(command, wire.Shutdown):
                    self._driver.stop()
                    return
                self._obey(command)
        self._driver.stop()

    def _read(self) -> bytes:
        try:
            return self._connection.recv(_READ_BYTES)
        except ConnectionResetError:
            return b""  # closed with replies still unread: the daemon is gone all the same

    def _send(self, message: wire.Reply) -> None:
        frame = wire.encode(message)
        try:
            with self._send_lock:
                self._connection.sendall(frame)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)  # the daemon is gone and nobody is left to answer

    def _obey(self, command: wire.Command) -> None:
        match command:
            case wire.Push(run, data):
                self._driver.put(run, Data(data))
            case wire.AckOutput(run, size):
                self._driver.acknowledge(run, size)
            case wire.FinalizeRun(run, token):
                self._driver.put(run, Finalize(token))
            case wire.FinishRun(run):
                self._driver.put(run, End())
            case wire.OpenRun():
                self._open(command)
            case wire.CancelRun(run):
                self._driver.cancel(run)
            case wire.LoadModel():
                threading.Thread(target=self._load, args=(command,), name="load", daemon=True).start()
            case wire.UnloadModel(model):
                self._models.pop(model).close()
                self._send(wire.Unloaded(model))

    def _open(self, command: wire.OpenRun) -> None:
        try:
            run: Run = self._models[command.model].run(command.request)
        except EngineError as error:
            self._send(wire.RunError(run=command.run, code=error.code, message=error.message, param=error.param))
        else:
            self._driver.open(command.run, run)

    def _load(self, command: wire.LoadModel) -> None:
        try:
            self._send(self._loaded(command))
        except EngineError as error:
            self._fail_load(command, error)
        except MemoryError:
            self._fail_load(command, OutOfMemory("not enough memory to load the model"))
        except Exception as error:
            log.exception("loading %s failed", command.model)
            self._fail_load(command, LoadError(f"{type(error).__name__}: {error}"))

    def _fail_load(self, command: wire.LoadModel, error: EngineError) -> None:
        self._send(wire.LoadFailed(model=command.model, code=error.code, message=error.message, param=error.param))

    def _loaded(self, command: wire.LoadModel) -> wire.Loaded:
        facts: list[wire.GraphFacts] = []

        def open_graph(path: Path, options: GraphOptions) -> Graph:
            graph = _open_graph(command, path, options)
            placement = graph.placement
            facts.append(
                wire.GraphFacts(
                    file=path.name,
                    runtime=placement.runtime,
                    providers=list(placement.providers),
                    details=dict(placement.details),
                    uncached=placement.uncached,
                )
            )
            return graph

        started = time.monotonic()
        context = LoadContext(
            files={role: Path(path) for role, path in command.files.items()},
            open_graph=open_graph,
            options=command.options,
            threads=command.threads,
        )
        model = find_family(command.family).load(context)
        loaded = time.monotonic()
        model.warm_up()
        process.give_back_freed_memory()  # what loading needed and left is not what the model holds
        self._models[command.model] = model
        return wire.Loaded(
            model=command.model, load_s=loaded - started, warm_up_s=time.monotonic() - loaded, graphs=facts
        )


def _open_graph(command: wire.LoadModel, path: Path, options: GraphOptions) -> Graph:
    if command.runtime != "onnxruntime":
        raise LoadError(f"runtime {command.runtime!r} is not known here; known: onnxruntime", param="backend")
    from audiocpp.engines.runtimes.onnxruntime import open_onnx

    return open_onnx(
        path,
        options,
        providers=[(name, dict(settings)) for name, settings in command.providers],
        threads=command.threads,
        cache_dir=Path(command.cache_dir) if command.cache_dir else None,
    )
