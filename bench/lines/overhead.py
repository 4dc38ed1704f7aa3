"""What the daemon adds to a short recognition."""

import sys
from functools import partial
from pathlib import Path

from bench.bed import ABSOLUTE_RUNS, Bed
from bench.companion import Companion
from bench.http_client import form_request
from bench.report import Figure, Report
from bench.samples import alternate, median, median_difference

_PROCESSES = 6
_RUNS_IN_EACH = ABSOLUTE_RUNS // 2
"""Where a process's memory happens to lie makes the same model up to 7 % faster or slower for as long as it lives."""


def overhead(bed: Bed) -> Report:
    recording = bed.material.recordings["beckett"]
    request = form_request("/v1/audio/transcriptions", {"model": "moonshine"}, file=recording.read_bytes())
    arguments = bed.material.load_arguments("moonshine_tiny_en")
    ours, theirs, texts = [], [], set()
    for _ in range(_PROCESSES):
        with bed.folder.start() as daemon, Companion(Path(sys.executable), "bench.bare_engine") as engine:
            engine.call("load", **arguments, cache_dir=str(bed.folder.graph_cache))
            texts |= {
                daemon.http.expect_ok(request).json()["text"],
                engine.call("hear", task="asr", path=str(recording))["text"],
            }
            pairs = alternate(
                _RUNS_IN_EACH,
                partial(daemon.sample, request),
                partial(engine.sample, "hear", task="asr", path=str(recording)),
            )
        ours += pairs[0]
        theirs += pairs[1]
    ours_s, theirs_s = ([sample.wall_s for sample in samples] for samples in (ours, theirs))
    added_s, bare_s = median_difference(ours_s, theirs_s), median(theirs_s)
    return Report(
        "transcription of beckett.wav (10 s) over HTTP, against the bare engine in one process",
        [
            Figure(
                name="added wall",
                value=100 * added_s / bare_s,
                unit="%",
                limit=5,
                samples=len(ours),
                made_of=f"{1e3 * added_s:.0f} ms more than {1e3 * bare_s:.0f} ms; the file is decoded on both sides",
                why="upload, spool, two processes, the wire and the reply may not be felt beside the model itself",
            )
        ],
        notes=[] if len(texts) == 1 else [f"the texts differ: {texts}"],
    )
