"""Speech by Piper over HTTP against the `piper-tts` library."""

import time
from functools import partial

from bench.bed import RATIO_RUNS, Bed
from bench.companion import Companion
from bench.daemon_process import Daemon
from bench.http_client import json_request
from bench.material import SENTENCES
from bench.peers.environment import PEERS, peer_python
from bench.report import Figure, Report
from bench.samples import Pairs, Sample, alternate, median, median_ratio

_TEXT = " ".join(SENTENCES)
_WHOLE = json_request("/v1/audio/speech", {"model": "piper", "input": _TEXT})
_STREAMED = json_request("/v1/audio/speech", {"model": "piper", "input": _TEXT, "stream_format": "audio"})
_WAV_HEADER_BYTES = 44
_RATE_HZ = 22_050


def synthesis(bed: Bed) -> Report:
    model = bed.material.load_arguments("piper_en_us_joe_medium")["files"]["model"]
    with bed.folder.start() as daemon:
        first_load_s = _load_in_daemon(daemon)
        loads = alternate(RATIO_RUNS, lambda: _load_in_daemon(daemon), lambda: _load_library(model))
        with Companion(peer_python("piper"), "bench.peers.piper", model) as library:
            library.call("load")
            spoken_s = _warm_up(daemon, library)
            whole, streamed = (
                alternate(RATIO_RUNS, partial(daemon.sample, request), lambda: library.sample("synthesize", text=_TEXT))
                for request in (_WHOLE, _STREAMED)
            )
    return Report(
        f"five sentences by Piper over HTTP, against {PEERS['piper']} in its own process",
        [*_speaking(whole, streamed), _loading(loads)],
        notes=[
            f"audio made: {spoken_s[0]:.1f} s and {spoken_s[1]:.1f} s",
            f"the daemon's first load, which optimises the graph once if that is not done: {first_load_s:.2f} s",
        ],
    )


def _speaking(whole: Pairs[Sample], streamed: Pairs[Sample]) -> list[Figure]:
    return [
        _ratio(
            "wall",
            *([sample.wall_s for sample in side] for side in whole),
            limit=1.05,
            why="the daemon may not be slower than the library that people would otherwise call",
        ),
        _ratio(
            "processor time",
            *([sample.cpu_s for sample in side] for side in whole),
            limit=None,
            why="what it takes from everything else on the device",
        ),
        _ratio(
            "first audio, streamed",
            *([sample.first_s for sample in side] for side in streamed),
            limit=1.1,
            why="how long a listener waits; the library's first chunk is its first sentence too",
        ),
    ]


def _loading(loads: Pairs[float]) -> Figure:
    return _ratio(
        "load",
        *loads,
        limit=0.7,
        why="a cold request waits for it; ours with its process and a warm graph cache, theirs after its imports",
    )


def _ratio(name: str, ours: list[float], theirs: list[float], *, limit: float | None, why: str) -> Figure:
    ours_s, theirs_s = median(ours), median(theirs)
    return Figure(
        name=name,
        value=median_ratio(ours, theirs),
        limit=limit,
        samples=len(ours),
        made_of=f"{ours_s:.3f} s / {theirs_s:.3f} s",
        why=why,
    )


def _warm_up(daemon: Daemon, library: Companion) -> tuple[float, float]:
    """Loads the voice in the daemon; the seconds of audio that each side makes of the text."""
    ours_s = (len(daemon.http.expect_ok(_WHOLE).body) - _WAV_HEADER_BYTES) / 2 / _RATE_HZ
    return ours_s, library.call("synthesize", text=_TEXT)["audio_s"]


def _load_in_daemon(daemon: Daemon) -> float:
    started = time.perf_counter()
    daemon.admin.load("piper")
    wall_s = time.perf_counter() - started
    daemon.admin.unload(["piper"])
    return wall_s


def _load_library(model: str) -> float:
    with Companion(peer_python("piper"), "bench.peers.piper", model) as library:
        wall_s: float = library.call("load")["wall_s"]
        return wall_s
