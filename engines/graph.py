"""One protocol for every inference runtime. A family sees graphs only through it and does not know the runtime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from audiocpp.engines.cancellation import RunControl

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A graph's input or output. `shape` has None where the dimension is free."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How a family wants a graph to run.

    Attributes:
        threads: intra-op threads; None takes the model's default.
        memory_arena: keep freed tensors for the next run; off for variable lengths, where it holds the worst case.
        cache_optimized: keep the optimised graph in the cache folder (ONNX files only).
        weights_in_place: use the weights where the file is mapped (ORT files). Off where the runtime packs a copy of
            them anyway, as it does with quantised ones: both would stay in memory.
    """

    threads: int | None = None
    memory_arena: bool = False
    cache_optimized: bool = True
    weights_in_place: bool = True


@dataclass(frozen=True, slots=True)
class GraphPlacement:
    """Where a graph really runs, read back from the runtime after loading.

    `uncached`: why the optimised graph could not be kept for the next load; empty where it is, or need not be.
    """

    runtime: str
    providers: tuple[str, ...]
    details: Mapping[str, str] = field(default_factory=dict)
    uncached: str = ""


class Graph(Protocol):
    """A loaded graph. `run` may be called from several threads at once."""

    @property
    def inputs(self) -> Sequence[TensorSpec]: ...

    @property
    def outputs(self) -> Sequence[TensorSpec]: ...

    @property
    def placement(self) -> GraphPlacement: ...

    def run(
        self, feeds: Mapping[str, Array], control: RunControl, *, outputs: Sequence[str] | None = None
    ) -> list[Array]:
        """Runs the graph and returns the asked outputs (all of them by default), in order.

        Raises `RunCancelled` when `control` is cancelled before or during the run, `OutOfMemory` when the runtime
        cannot allocate, `InvalidInput` when the runtime refuses a shape.
        """
        ...

    def close(self) -> None: ...
