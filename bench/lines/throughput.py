"""Several clients at once, against the bare engine working through the same requests with as many threads as slots."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.bed import Bed
from bench.companion import Companion
from bench.daemon_process import SLOTS, Daemon
from bench.http_client import Request, form_request, json_request
from bench.material import SENTENCES
from bench.report import Figure, Report
from bench.samples import alternate, median, median_ratio

_CLIENTS = 4
_REQUESTS = 12
_ROUNDS = 5
_LIMIT = 1 / 0.9
_TEXT = SENTENCES[1]


def throughput(bed: Bed) -> Report:
    recording = bed.material.recordings["beckett"]
    hear = form_request("/v1/audio/transcriptions", {"model": "moonshine"}, file=recording.read_bytes())
    speak = json_request("/v1/audio/speech", {"model": "piper", "input": _TEXT})
    with bed.folder.start() as daemon:
        return Report(
            f"{_REQUESTS} requests of {_CLIENTS} clients on {SLOTS} slots, against {SLOTS} threads of the bare engine",
            [
                _line(bed, daemon, "transcription", hear, "moonshine_tiny_en", run="hear", path=str(recording)),
                _line(bed, daemon, "speech", speak, "piper_en_us_joe_medium", run="speak", text=_TEXT),
            ],
        )


def _line(bed: Bed, daemon: Daemon, name: str, request: Request, package: str, *, run: str, **values: str) -> Figure:
    with Companion(Path(sys.executable), "bench.bare_engine") as engine:
        engine.call("load", **bed.material.load_arguments(package), cache_dir=str(bed.folder.graph_cache))
        rounds: tuple[Callable[[], float], Callable[[], float]] = (
            partial(_by_clients, daemon, request),
            lambda: engine.sample("side_by_side", run=run, times=_REQUESTS, threads=SLOTS, arguments=values).wall_s,
        )
        for warm_up in rounds:
            warm_up()
        ours_s, theirs_s = alternate(_ROUNDS, *rounds)
    return Figure(
        name=name,
        value=median_ratio(ours_s, theirs_s),
        limit=_LIMIT,
        samples=len(ours_s),
        made_of=f"{_REQUESTS / median(ours_s):.1f} / {_REQUESTS / median(theirs_s):.1f} requests a second",
        why="at least 0.9 of the throughput: slots, queue and processes may not cost what the models could do",
    )


def _by_clients(daemon: Daemon, request: Request) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(_CLIENTS) as clients:
        replies = [clients.submit(daemon.http.expect_ok, request) for _ in range(_REQUESTS)]
        for reply in replies:
            reply.result()
    return time.perf_counter() - started
