"""What the daemon adds to a short recognition."""

import sys
from pathlib import Path

from bench.bed import ABSOLUTE_RUNS, Bed
from bench.companion import Companion
from bench.http_client import form_request
from bench.report import Figure, Report
from bench.samples import alternate, median, median_difference


def overhead(bed: Bed) -> Report:
    recording = bed.material.recordings["beckett"]
    request = form_request("/v1/audio/transcriptions", {"model": "moonshine"}, file=recording.read_bytes())
    with bed.folder.start() as daemon, Companion(Path(sys.executable), "bench.bare_engine") as engine:
        arguments = bed.material.load_arguments("moonshine_tiny_en")
        engine.call("load", **arguments, cache_dir=str(bed.folder.graph_cache))
        text = daemon.http.expect_ok(request).json()["text"]
        bare_text = engine.call("hear", task="asr", path=str(recording))["text"]
        ours, theirs = alternate(
            3 * ABSOLUTE_RUNS,
            lambda: daemon.sample(request),
            lambda: engine.sample("hear", task="asr", path=str(recording)),
        )
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
        notes=[] if text == bare_text else [f"the texts differ: {text!r} and {bare_text!r}"],
    )
