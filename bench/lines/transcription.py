"""Recognition over HTTP against the `moonshine_voice` library."""

import statistics
from dataclasses import dataclass

from bench.bed import RATIO_RUNS, Bed
from bench.companion import Companion
from bench.daemon_process import Daemon
from bench.http_client import Request, form_request
from bench.material import word_error_rate
from bench.peak import Watched, watched
from bench.peers.environment import PEERS, peer_python
from bench.processes import Memory
from bench.report import Figure, Report
from bench.samples import alternate, median, median_ratio

_PASSAGE = "two_cities"
_MIB = 1 << 20
_MEMORY_RUNS = 3


@dataclass(frozen=True, slots=True)
class _Run:
    """One transcription. `read_s`: the part of `wall_s` in which the library read the file."""

    wall_s: float
    cpu_s: float
    word_error_rate: float
    read_s: float = 0.0


def transcription(bed: Bed) -> Report:
    path = bed.material.recordings[_PASSAGE]
    request = form_request("/v1/audio/transcriptions", {"model": "moonshine"}, file=path.read_bytes())
    with bed.folder.start() as daemon, Companion(peer_python("moonshine"), "bench.peers.moonshine") as library:
        library.call("load")
        _over_http(daemon, request)
        _in_library(library, str(path))
        ours, theirs = alternate(
            RATIO_RUNS, lambda: _over_http(daemon, request), lambda: _in_library(library, str(path))
        )
        # Apart from the timed runs: reading the memory takes time from them.
        our_memory, their_memory = alternate(
            _MEMORY_RUNS,
            lambda: watched(daemon.tree, lambda: _over_http(daemon, request)),
            lambda: watched(library.tree, lambda: _in_library(library, str(path))),
        )
    return Report(
        f"transcription of two_cities.wav (44 s) over HTTP, against {PEERS['moonshine']}, same model",
        [*_times(ours, theirs), *_memory(our_memory, their_memory), _errors(ours, theirs)],
    )


def _over_http(daemon: Daemon, request: Request) -> _Run:
    cpu_before_s = daemon.tree.cpu_s()
    reply = daemon.http.expect_ok(request)
    cpu_s = daemon.tree.cpu_s() - cpu_before_s
    return _Run(reply.wall_s, cpu_s, word_error_rate(_PASSAGE, reply.json()["text"]))


def _in_library(library: Companion, path: str) -> _Run:
    cpu_before_s = library.tree.cpu_s()
    answer = library.call("transcribe", path=path)
    cpu_s = library.tree.cpu_s() - cpu_before_s
    return _Run(answer["wall_s"], cpu_s, word_error_rate(_PASSAGE, answer["text"]), answer["read_s"])


def _times(ours: list[_Run], theirs: list[_Run]) -> list[Figure]:
    walls_s, library_walls_s = [run.wall_s for run in ours], [run.wall_s for run in theirs]
    models_s = [run.wall_s - run.read_s for run in theirs]
    cpus_s, library_cpus_s = [run.cpu_s for run in ours], [run.cpu_s for run in theirs]
    return [
        Figure(
            name="wall",
            value=median_ratio(walls_s, library_walls_s),
            limit=0.65,
            target=0.45,
            samples=len(ours),
            made_of=f"{median(walls_s):.2f} s / {median(library_walls_s):.2f} s; from the file to the text",
            why="the daemon has to be worth more than the library in the caller's own process",
        ),
        Figure(
            name="wall, the reading left out",
            value=median_ratio(walls_s, models_s),
            samples=len(ours),
            made_of=f"{median(walls_s):.2f} s / {median(models_s):.2f} s; ours still uploads, reads and resamples",
            why="the library reads WAV files in Python; an application may have the samples already",
        ),
        Figure(
            name="processor time",
            value=median_ratio(cpus_s, library_cpus_s),
            limit=0.5,
            target=0.35,
            samples=len(ours),
            made_of=f"{median(cpus_s):.2f} s / {median(library_cpus_s):.2f} s; all of the daemon's processes",
            why="what a device can serve side by side, and what it draws from the battery",
        ),
    ]


def _memory(ours: list[Watched], theirs: list[Watched]) -> list[Figure]:
    return [
        _memory_ratio(
            "memory between requests",
            [memory.after for memory in ours],
            [memory.after for memory in theirs],
            limit=0.75,
            why="what stays taken as long as the model is resident; all of the daemon's processes",
        ),
        _memory_ratio(
            "memory at its peak",
            [memory.peak for memory in ours],
            [memory.peak for memory in theirs],
            limit=None,
            why="what the device must have for the request; the daemon decodes several utterances at once",
        ),
    ]


def _memory_ratio(name: str, ours: list[Memory], theirs: list[Memory], *, limit: float | None, why: str) -> Figure:
    private, proportional, resident = (
        median([getattr(memory, kind) for memory in ours]) / _MIB for kind in ("private", "proportional", "resident")
    )
    library = median([memory.resident for memory in theirs]) / _MIB
    return Figure(
        name=name,
        value=private / library,
        limit=limit,
        samples=len(ours),
        made_of=(
            f"{private:.0f} MiB private / {library:.0f} MiB resident; ours with shared pages counted once "
            f"{proportional:.0f}, for each process {resident:.0f}"
        ),
        why=why,
    )


def _errors(ours: list[_Run], theirs: list[_Run]) -> Figure:
    rates = [100 * statistics.mean(run.word_error_rate for run in runs) for runs in (ours, theirs)]
    return Figure(
        name="word error rate",
        value=rates[0],
        unit="%",
        limit=rates[1],
        samples=len(ours),
        made_of=f"{rates[0]:.1f} % / {rates[1]:.1f} %, means, against the published text",
        why="speed is not bought with errors",
    )
