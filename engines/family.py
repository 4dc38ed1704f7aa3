"""What a model family implements and what it may ask of the worker that runs it.

A family is one file in `families/`. It declares the files it needs in its spec, loads graphs through the
`LoadContext`, and answers each request with a `Run`: a generator that yields events to send and effects to perform.
So cancellation (the generator is closed), streaming (events leave as they are yielded), back-pressure (the generator
is not resumed) and batching (effects of several runs are merged) come for free, and a run is tested without a process.

All runs of a worker are resumed on one thread, where no cancel is heard: between two yields only what takes well under
20 ms, whatever the input. The rest is `Work`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.graph import Graph, GraphOptions
from audiocpp.engines.tasks import OptionValue, TaskEvent, TaskRequest


class Lane(IntEnum):
    """Order in which waiting work is computed; the lowest first. Work of one lane is first in, first out."""

    LIVE_TRACK = 0  # voice activity of a live session: cheap, everything else waits for it
    LIVE_FINAL = 1  # the final text after the end of speech
    LIVE_PARTIAL = 2  # a hypothesis while one speaks
    BATCH = 3  # offline requests

    @property
    def live(self) -> bool:
        return self is not Lane.BATCH

    @property
    def patient(self) -> bool:
        """Whether it can wait for as long as a computation takes."""
        return self in (Lane.LIVE_PARTIAL, Lane.BATCH)


@dataclass(frozen=True, slots=True)
class Work:
    """Effect: compute `function(rows, control)` on a compute thread and resume the run with its list of results.

    Rows of several runs are merged into one call when they have the same `function` (same bound method of the same
    loaded model) and lane, up to `max_rows` in total. `function` returns one result per row, in order, and must
    pass `control` to `Graph.run` and call `control.check()` between graph runs.
    """

    function: Callable[[Sequence[Any], RunControl], Sequence[Any]]
    rows: Sequence[Any]
    lane: Lane = Lane.BATCH
    max_rows: int = 1


@dataclass(frozen=True, slots=True)
class Background:
    """Effect: start `work` and go on at once. Its results arrive later as the input `Completed(tag, results)`."""

    work: Work
    tag: str


@dataclass(frozen=True, slots=True)
class Revoke:
    """Effect: drop the background work `tag` if it has not started; resumed with True if it was dropped.

    When it had started (False), its `Completed` still arrives.
    """

    tag: str


@dataclass(frozen=True, slots=True)
class Next:
    """Effect: wait for the next input and be resumed with it (`Data`, `Finalize`, `End` or `Completed`)."""


NEXT = Next()


@dataclass(frozen=True, slots=True)
class Data:
    """Input: bytes in the request's audio format, split anywhere, also inside a sample."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Finalize:
    """Input: answer all that was heard so far, then yield `Finalized(id)` and go on."""

    id: str


@dataclass(frozen=True, slots=True)
class End:
    """Input: nothing follows."""


@dataclass(frozen=True, slots=True)
class Completed:
    """Input: a `Background` work has finished. `error` is set instead of `results` when it failed."""

    tag: str
    results: Sequence[Any]
    error: BaseException | None = None


Input = Data | Finalize | End | Completed
Effect = Work | Background | Revoke | Next
Run = Generator[TaskEvent | Effect, Any, None]


@dataclass(frozen=True, slots=True)
class LoadContext:
    """What a family gets to load from.

    Attributes:
        files: role (as declared in the spec's package) -> existing file; companions' files are included under the
            role that the spec's dependency gives them.
        open_graph: opens a graph file by the placement chosen for this model; close the graph in `LoadedModel.close`.
        options: load and session options by local name (`threads`, not `piper_tts.threads`).
        threads: compute threads a single graph run may use.
    """

    files: Mapping[str, Path]
    open_graph: Callable[[Path, GraphOptions], Graph]
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    threads: int = 1


class LoadedModel(Protocol):
    """A model in memory, shared by all runs of all entries that use it. Its methods may be called from any thread."""

    def run(self, request: TaskRequest) -> Run:
        """A new run. Validation that needs no input raises `InvalidInput` before the first yield."""
        ...

    def warm_up(self) -> None:
        """Runs every graph once on a tiny input, so that the first request is not the slow one."""
        ...

    def close(self) -> None:
        """Releases graphs. No run is open any more."""
        ...


class Family(Protocol):
    """The class of a family, listed in `families.FAMILIES`."""

    name: ClassVar[str]

    @classmethod
    def load(cls, context: LoadContext) -> LoadedModel:
        """Loads the model. Raises `LoadError` (missing or damaged file) or `MissingDependency`."""
        ...
