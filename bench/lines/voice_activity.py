"""Voice activity detection over HTTP against the same work without the daemon."""

import sys
from pathlib import Path

from bench.bed import RATIO_RUNS, Bed
from bench.companion import Companion
from bench.http_client import json_request
from bench.report import Figure, Report
from bench.samples import alternate, median, median_ratio


def voice_activity(bed: Bed) -> Report:
    recording = str(bed.material.recordings["two_cities"])
    request = json_request("/v1/tasks/run", {"model": "vad", "audio": recording})
    with bed.folder.start() as daemon, Companion(Path(sys.executable), "bench.bare_engine") as engine:
        engine.call("load", **bed.material.load_arguments("silero_vad"), cache_dir=str(bed.folder.graph_cache))
        found = len(daemon.http.expect_ok(request).json()["segments"])
        bare = engine.call("hear", task="vad", path=recording)["segments"]
        ours, theirs = alternate(
            RATIO_RUNS,
            lambda: daemon.sample(request),
            lambda: engine.sample("hear", task="vad", path=recording),
        )
    ours_s, theirs_s = ([sample.wall_s for sample in samples] for samples in (ours, theirs))
    return Report(
        "voice activity of two_cities.wav (44 s) over HTTP, against the same work in one process",
        [
            Figure(
                name="wall",
                value=median_ratio(ours_s, theirs_s),
                limit=1.5,
                samples=len(ours),
                made_of=(
                    f"{1e3 * median(ours_s):.0f} ms / {1e3 * median(theirs_s):.0f} ms; "
                    "both read, decode, resample, frame and run"
                ),
                why="a cheap model shows what the way through the daemon costs for a long recording",
            )
        ],
        notes=[f"segments found: {found} and {bare}"],
    )
