"""A real `audiocppd` process for tests: its own port, admin socket, caches and log, ended by its process id."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import httpx

COMMANDS = Path(sys.executable).parent
START_LIMIT_S = 30.0
STOP_LIMIT_S = 20.0
_READY = re.compile(r"listening on (https?://\S+)")

MODELS: tuple[dict[str, Any], ...] = (
    {"id": "moonshine", "family": "moonshine_asr", "task": "asr", "aliases": ["whisper-1"]},
    {"id": "moonshine-live", "family": "moonshine_asr", "task": "asr", "mode": "streaming"},
    {"id": "piper", "family": "piper_tts", "task": "tts", "aliases": ["tts-1"]},
    {"id": "vad", "family": "silero_vad", "task": "vad"},
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a daemon holds: processes below it, file descriptors of its own, uploads in its cache."""

    processes: int
    descriptors: int
    uploads: int

    def within(self, other: "Footprint") -> bool:
        return all(mine <= before for mine, before in zip(astuple(self), astuple(other), strict=True))


@dataclass(frozen=True, slots=True)
class DaemonProcess:
    """A daemon that accepts connections. `folder` holds its configuration, log, state and caches."""

    process: "subprocess.Popen[str]"
    url: str
    folder: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def admin_socket(self) -> Path:
        return self.folder / "admin.sock"

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log's records so far."""
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines() if line.startswith("{")]

    def client(self, **settings: Any) -> httpx.Client:
        """A client that does not trust the environment's proxies. Close it, or use it as a context manager."""
        return httpx.Client(base_url=self.url, timeout=60.0, trust_env=False, **settings)

    def ctl(self, *arguments: str, expect: int = 0) -> Any:
        """Runs `audiocppctl --json`, checks its exit status and returns what it printed."""
        command = [COMMANDS / "audiocppctl", "--socket", self.admin_socket, "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == expect, f"{done.args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def ps(self) -> dict[str, dict[str, Any]]:
        """`audiocppctl ps`: entry id -> row."""
        return {row["id"]: row for row in self.ctl("ps")["models"]}

    def children(self) -> list[int]:
        """Every process below the daemon, fork server and workers included."""
        below, found = [self.pid], []
        while below:
            children = children_of(below.pop())
            below += children
            found += children
        return found

    def footprint(self) -> "Footprint":
        spool = self.folder / "cache" / "audiocpp" / "spool"
        return Footprint(
            processes=len(self.children()),
            descriptors=len(list(Path(f"/proc/{self.pid}/fd").iterdir())),
            uploads=len(list(spool.iterdir())) if spool.is_dir() else 0,
        )


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    try:
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextmanager
def running_daemon(
    folder: Path,
    models_root: Path,
    *,
    models: Sequence[Mapping[str, Any]] = MODELS,
    flags: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    **config: Any,
) -> Iterator[DaemonProcess]:
    """Starts a daemon with `models` and further configuration keys, and ends it afterwards."""
    document = {"lazy_load": True, "models": list(models), **config}
    (folder / "server.json").write_text(json.dumps(document))
    paths = {"--config": folder / "server.json", "--admin-socket": folder / "admin.sock", "--models-root": models_root}
    command = [COMMANDS / "audiocppd", "--port", "0", *(str(word) for pair in paths.items() for word in pair), *flags]
    homes = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
    with (folder / "log").open("ab") as log:
        everything = {**os.environ, **homes, **(environ or {})}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=everything, cwd=cwd)
    with process:
        try:
            yield DaemonProcess(process, _await_ready(process, folder), folder)
        finally:
            _stop(process)


def _await_ready(process: "subprocess.Popen[str]", folder: Path) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_LIMIT_S)
    match = _READY.search(process.stdout.readline()) if readable else None
    assert match is not None, f"the daemon did not start: {(folder / 'log').read_text()[-3000:]}"
    return match[1]


def _stop(process: "subprocess.Popen[str]") -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def eventually(condition: Any, *, limit_s: float = 10.0, what: str = "") -> Any:
    """Polls a fact of other processes until it is true, and returns it; fails after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < deadline, what or f"not within {limit_s} s"
        time.sleep(0.02)
    return value
