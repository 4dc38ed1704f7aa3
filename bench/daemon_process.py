"""A real `audiocppd`: its own port, admin socket and caches, and an end by its process id."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from audiocpp.control.client import AdminClient
from bench.http_client import HttpClient, Request
from bench.processes import ProcessTree
from bench.samples import Sample

COMMANDS = Path(sys.executable).parent

SLOTS = 2
"""Of the models that are asked by several clients at once."""

MODELS: tuple[Mapping[str, object], ...] = (
    {"id": "moonshine", "family": "moonshine_asr", "task": "asr", "slots": SLOTS},
    {"id": "moonshine-live", "family": "moonshine_asr", "task": "asr", "mode": "streaming"},
    {"id": "vad", "family": "silero_vad", "task": "vad"},
    {"id": "piper", "family": "piper_tts", "task": "tts", "slots": SLOTS},
)
"""All are loaded when they are first asked for."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed program has its bytecode; here the first start compiles it."""

_START_S = 30.0
_STOP_S = 15.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that listens. `start_s`: from the start of the process to the line that says so."""

    tree: ProcessTree
    http: HttpClient
    admin_socket: Path
    start_s: float

    @property
    def admin(self) -> AdminClient:
        return AdminClient([str(self.admin_socket)])

    def sample(self, request: Request) -> Sample:
        """A request as a sample, its times as its client sees them. Raises `RuntimeError` unless it is answered 200."""
        cpu_before_s = self.tree.cpu_s()
        reply = self.http.expect_ok(request)
        return Sample(reply.wall_s, self.tree.cpu_s() - cpu_before_s, reply.first_s)


@dataclass(frozen=True, slots=True)
class DaemonFolder:
    """What a daemon keeps between two starts. Use `daemon_folder`."""

    path: Path
    models_root: Path

    @property
    def graph_cache(self) -> Path:
        """Where daemons keep optimised graphs."""
        return self._cache_home / "audiocpp" / "graphs"

    @property
    def _cache_home(self) -> Path:
        return self.path / "cache"

    @contextmanager
    def start(self) -> Iterator[Daemon]:
        """Starts a daemon, and ends it when the block is left. Its log is `audiocppd.log` in the folder."""
        admin_socket = self.path / "admin.sock"
        paths = {"--config": self._config(), "--admin-socket": admin_socket, "--models-root": self.models_root}
        flags = [word for name, path in paths.items() for word in (name, str(path))]
        homes = {"XDG_CACHE_HOME": str(self._cache_home), "XDG_STATE_HOME": str(self.path / "state")}
        with (self.path / "audiocppd.log").open("ab") as log:
            started = time.perf_counter()
            process = subprocess.Popen(
                [COMMANDS / "audiocppd", "--port", "0", *flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=ENVIRONMENT | homes,
            )
        with process:
            try:
                http = self._await_ready(process)
                yield Daemon(ProcessTree(process.pid), http, admin_socket, time.perf_counter() - started)
            finally:
                _end(process)

    def _config(self) -> Path:
        path = self.path / "server.json"
        path.write_text(json.dumps({"lazy_load": True, "models": MODELS}))
        return path

    def _await_ready(self, process: "subprocess.Popen[str]") -> HttpClient:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], _START_S)
        line = process.stdout.readline() if readable else ""
        if "listening on" not in line:
            raise RuntimeError(f"audiocppd did not start; its log: {(self.path / 'audiocppd.log').read_text()[-2000:]}")
        address = urlsplit(line.split()[-1])
        assert address.hostname is not None
        assert address.port is not None
        return HttpClient(address.hostname, address.port)


@contextmanager
def daemon_folder(models_root: Path) -> Iterator[DaemonFolder]:
    """A folder for daemons, removed when the block is left."""
    with tempfile.TemporaryDirectory(prefix="audiocpp-bench-") as name:
        yield DaemonFolder(Path(name), models_root)


def _end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
