"""Residency under load: many clients, little room, for a bounded time."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.integration.daemon_process import MODELS, DaemonProcess, running_daemon
from tests.integration.sampling import sampled

from audiocpp.daemon.memory import private_bytes

pytestmark = pytest.mark.integration

SENTENCE = "The quick brown fox jumps over the lazy dog."
FAST_PIPER = {"id": "piper-quiet", "family": "piper_tts", "session_options": {"piper_tts.threads": 1}}
FOUR = [*(model for model in MODELS if model["id"] != "moonshine-live"), FAST_PIPER]
MIXED_S = 60.0
CROWD_S = 20.0
MIB = 1 << 20


class Clients:
    """Threads that send requests until a moment, and count what came back."""

    def __init__(self, daemon: DaemonProcess, audio: Path) -> None:
        self.daemon = daemon
        self.audio = audio
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, count: int, seconds: float) -> None:
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self._client, args=(number, until)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 90)
            assert not thread.is_alive(), "a request hangs"

    def _client(self, number: int, until: float) -> None:
        choice = random.Random(number)
        requests = [self._transcribe, self._segment, self._speak_with("piper"), self._speak_with("piper-quiet")]
        with self.daemon.client() as client:
            while time.monotonic() < until:
                self._record(choice.choice(requests)(client))

    def _record(self, outcome: str) -> None:
        self.outcomes[outcome] += 1

    def _judge(self, reply: httpx.Response, *, right: Callable[[httpx.Response], bool]) -> str:
        if reply.status_code == 503 and reply.json()["error"]["code"] in ("server_busy", "insufficient_memory"):
            assert reply.headers["Retry-After"]
            return "503"
        if reply.status_code != 200 or not right(reply):
            self.wrong.append(f"{reply.status_code} {reply.text[:300]}")
        return str(reply.status_code)

    def _transcribe(self, client: httpx.Client) -> str:
        with self.audio.open("rb") as file:
            reply = client.post("/v1/audio/transcriptions", data={"model": "moonshine"}, files={"file": file})
        return self._judge(reply, right=lambda reply: "try again" in reply.json()["text"].lower())

    def _segment(self, client: httpx.Client) -> str:
        reply = client.post("/v1/tasks/run", json={"model": "vad", "audio": str(self.audio)})
        return self._judge(reply, right=lambda reply: len(reply.json()["segments"]) >= 4)

    def _speak_with(self, model: str) -> Callable[[httpx.Client], str]:
        def speak(client: httpx.Client) -> str:
            reply = client.post("/v1/audio/speech", json={"model": model, "input": SENTENCE})
            return self._judge(reply, right=lambda reply: reply.content[:4] == b"RIFF" and len(reply.content) > 40_000)

        return speak


def workers_of(daemon: DaemonProcess) -> dict[int, str]:
    """Worker processes of models: pid -> name. The fork server, the resource tracker and the codec are left out."""
    found = {}
    for pid in daemon.children():
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except FileNotFoundError:
            continue
        if name.startswith(("moonshine", "silero", "piper")):
            found[pid] = name
    return found


def test_one_place_for_four_models_and_twenty_clients(
    tmp_path: Path, models_root: Path, audio_files: dict[str, Path]
) -> None:
    # Nobody may wait for long, however slow the machine: whom the busy timeout refuses gets the documented 503.
    limits = {"max_loaded_models": 1, "busy_timeout_ms": 10_000}
    with running_daemon(tmp_path, models_root, models=FOUR, **limits) as daemon:
        most = 0

        def count() -> None:
            nonlocal most
            resident = [row for row in daemon.ps().values() if row["state"] in ("ready", "busy", "draining")]
            most = max(most, len(resident))

        clients = Clients(daemon, audio_files["beckett.wav"])
        with sampled(count, every_s=0.2):
            clients.run(20, MIXED_S)
        assert not clients.wrong, clients.wrong[0]
        assert clients.outcomes["200"] >= 10, clients.outcomes
        assert most == 1


def test_the_sum_of_all_models_stays_below_its_limit(
    tmp_path: Path, models_root: Path, audio_files: dict[str, Path]
) -> None:
    # In the same folder, so that the second daemon knows what the first has measured: a limit can only be kept with
    # known needs, and the first run of a model that was never measured may take it by surprise.
    with running_daemon(tmp_path, models_root, models=FOUR) as daemon:
        for model in FOUR:
            daemon.ctl("load", str(model["id"]))
        Clients(daemon, audio_files["beckett.wav"]).run(4, 10.0)
        rows = list(daemon.ps().values())
    residencies = sorted(row["resident_bytes"] for row in rows)
    limit = residencies[-1] + residencies[-2] + max(row["peak_bytes"] - row["resident_bytes"] for row in rows)

    limits = {"max_resident_memory_mb": -(-limit // MIB), "busy_timeout_ms": 5000}
    with running_daemon(tmp_path, models_root, models=FOUR, **limits) as daemon:
        sums: list[int] = []

        def weigh() -> None:
            total = 0
            for pid in workers_of(daemon):
                try:
                    total += private_bytes(pid)
                except ProcessLookupError:
                    continue
            sums.append(total)

        clients = Clients(daemon, audio_files["beckett.wav"])
        with sampled(weigh, every_s=0.1):
            clients.run(10, CROWD_S)
        assert not clients.wrong, clients.wrong[0]
        assert clients.outcomes["200"] >= 3, clients.outcomes
        assert max(sums) <= 1.05 * limit


def test_loading_and_unloading_fifty_times_leaves_nothing_behind(tmp_path: Path, models_root: Path) -> None:
    with running_daemon(tmp_path, models_root) as daemon:
        for cycle in range(50):
            daemon.ctl("load", "piper")
            pid = daemon.ps()["piper"]["pid"]
            held = private_bytes(pid)
            report = daemon.ctl("unload", "piper")
            assert not Path(f"/proc/{pid}").exists(), "unload returned before the process was gone"
            # The kernel may have dropped some of the mapped weights' pages since `held` was read.
            assert report["released_bytes"] > 0.8 * held
            if cycle == 1:
                descriptors, memory = open_descriptors(daemon.pid), private_bytes(daemon.pid)
        assert private_bytes(daemon.pid) - memory < 4 * MIB
        assert open_descriptors(daemon.pid) <= descriptors


def open_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
