"""ONNX Runtime behind the `Graph` protocol. Sessions are opened by path, never from bytes: weights stay in the file."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import (
    EngineError,
    InvalidInput,
    LoadError,
    MissingDependency,
    OutOfMemory,
    RunCancelled,
)
from audiocpp.engines.graph import Array, Graph, GraphOptions, GraphPlacement, TensorSpec
from audiocpp.engines.runtimes.graph_cache import CacheUnusable, GraphCache

# Read when the library is loaded: 1.32 would otherwise report its use to its makers.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

try:
    import onnxruntime as ort
    from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
except ImportError as error:
    raise MissingDependency(
        f"ONNX Runtime cannot be imported ({error}); it comes with: pip install 'audiocppd[cpu]'"
    ) from error

log = logging.getLogger(__name__)

RUNTIME: Final = "onnxruntime"
CPU: Final = "CPUExecutionProvider"

Provider = tuple[str, Mapping[str, str]]

_ERRORS_ONLY: Final = 3
_ALLOCATION_FAILURES: Final = ("bad_alloc", "bad allocation", "Failed to allocate", "out of memory")
_DTYPES: Final = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}


def open_onnx(
    path: Path, options: GraphOptions, *, providers: Sequence[Provider], threads: int, cache_dir: Path | None
) -> Graph:
    """Opens an `.onnx` or `.ort` file on `providers` (best first).

    An `.ort` file is mapped and its weights are used in place unless `options` say otherwise. An `.onnx` file for the
    CPU is optimised once into an `.ort` file in `cache_dir`, which loads several times faster and is mapped too.

    Raises:
        LoadError: the file is missing, damaged or refused, or the first of `providers` did not take it.
        OutOfMemory: the runtime could not allocate.
    """
    if not path.is_file():
        raise LoadError(f"{path}: there is no such file")
    available = ort.get_available_providers()
    for name, _ in providers:
        if name not in available:
            raise LoadError(f"{path}: this ONNX Runtime has no {name}; it has {', '.join(available)}", param="backend")
    settings = _settings(options, threads)
    on_cpu = [name for name, _ in providers] == [CPU]
    session, uncached = None, ""
    if path.suffix == ".onnx" and options.cache_optimized and on_cpu and cache_dir is not None:
        try:
            session = _open_cached(path, settings, GraphCache(cache_dir))
        except CacheUnusable as error:
            uncached = str(error)
    if session is None:
        session = _open(path, settings, providers)
    placed = tuple(session.get_providers())
    if providers and placed[0] != providers[0][0]:
        raise LoadError(f"{path}: {providers[0][0]} did not take the graph; it would run on {', '.join(placed)}")
    return OnnxGraph(session, path, threads=settings["threads"], uncached=uncached)


def _settings(options: GraphOptions, threads: int) -> dict[str, Any]:
    return {
        "threads": options.threads or threads,
        "memory_arena": options.memory_arena,
        "weights_in_place": options.weights_in_place,
    }


def _session_options(settings: Mapping[str, Any]) -> "ort.SessionOptions":
    options = ort.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    # Explicit counts: the default sets the affinity of threads, which fails under a cpuset.
    options.intra_op_num_threads = settings["threads"]
    options.inter_op_num_threads = 1
    # Threads that spin between runs take a core from everybody else.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = settings["memory_arena"]
    # A pattern is planned for one set of shapes; audio has another length each time.
    options.enable_mem_pattern = False
    return options


def _open(path: Path, settings: Mapping[str, Any], providers: Sequence[Provider]) -> "ort.InferenceSession":
    options = _session_options(settings)
    if path.suffix == ".ort":
        options.add_session_config_entry("session.use_memory_mapped_ort_model", "1")
        in_place = "1" if settings["weights_in_place"] else "0"
        options.add_session_config_entry("session.use_ort_model_bytes_for_initializers", in_place)
    chosen = [(name, dict(values)) for name, values in providers]
    with _translated(path):
        return ort.InferenceSession(str(path), options, providers=chosen)


def _open_cached(path: Path, settings: Mapping[str, Any], cache: GraphCache) -> "ort.InferenceSession":
    """A session from the cache, filled first where need be. Raises `CacheUnusable`."""

    def build(target: Path) -> None:
        options = _session_options(settings)
        options.optimized_model_filepath = str(target)
        options.add_session_config_entry("session.save_model_format", "ORT")
        with _translated(path):
            ort.InferenceSession(str(path), options, providers=[CPU])

    variant = f"{RUNTIME} {ort.__version__} {CPU} all optimizations"
    for _ in range(2):
        try:
            entry = cache.find(path, variant, build)
        except LoadError as error:  # a full disk too; where the file itself is at fault, opening it will say so
            raise CacheUnusable(f"the optimised graph cannot be written: {error.message}") from error
        try:
            return _open(entry, settings, [(CPU, {})])
        except LoadError as error:
            log.warning("the cached graph of %s is damaged: %s", path.name, error)
            cache.drop(entry)
    raise CacheUnusable(f"{entry.name} is damaged again after it was made anew")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(f"{path}: not enough memory to load the graph") from error
    except _RUNTIME_ERRORS as error:
        if _is_allocation_failure(error):
            raise OutOfMemory(f"{path}: not enough memory to load the graph") from error
        raise LoadError(f"{path}: ONNX Runtime refuses the file: {error}") from error


_RUNTIME_ERRORS: Final = (
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.ModelLoaded,
    ort_errors.NoModel,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
    RuntimeError,
    ValueError,
)


def _is_allocation_failure(error: Exception) -> bool:
    return any(sign in str(error) for sign in _ALLOCATION_FAILURES)


class OnnxGraph:
    """A `Graph` over an inference session."""

    def __init__(self, session: "ort.InferenceSession", path: Path, *, threads: int, uncached: str) -> None:
        self._session: ort.InferenceSession | None = session
        self._path = path
        self._inputs = [_tensor(item) for item in session.get_inputs()]
        self._outputs = [_tensor(item) for item in session.get_outputs()]
        details = {"threads": str(threads)}
        self._placement = GraphPlacement(RUNTIME, tuple(session.get_providers()), details, uncached)

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        return self._inputs

    @property
    def outputs(self) -> Sequence[TensorSpec]:
        return self._outputs

    @property
    def placement(self) -> GraphPlacement:
        return self._placement

    def run(
        self, feeds: Mapping[str, Array], control: RunControl, *, outputs: Sequence[str] | None = None
    ) -> list[Array]:
        """See `Graph.run`. A run that is stopped ends after the node in progress."""
        assert self._session is not None, "the graph is closed"
        run_options = ort.RunOptions()
        run_options.log_severity_level = _ERRORS_ONLY + 1  # a terminated run would be logged as an error

        def stop() -> None:
            run_options.terminate = True

        try:
            with control.terminable(stop):
                results: list[Array] = self._session.run(
                    list(outputs) if outputs is not None else None, dict(feeds), run_options
                )
                return results
        except _RUNTIME_ERRORS as error:
            raise self._failure(error, control) from error

    def close(self) -> None:
        self._session = None

    def _failure(self, error: Exception, control: RunControl) -> EngineError:
        if control.cancelled:
            return RunCancelled("the run was cancelled")
        if _is_allocation_failure(error):
            return OutOfMemory(f"{self._path.name}: not enough memory for this input")
        if isinstance(error, ort_errors.InvalidArgument | ValueError):
            return InvalidInput(f"{self._path.name}: {error}")
        return EngineError(f"{self._path.name}: {error}")


def _tensor(item: Any) -> TensorSpec:  # noqa: ANN401 - the runtime publishes no types
    shape = tuple(size if isinstance(size, int) else None for size in item.shape)
    return TensorSpec(item.name, np.dtype(_DTYPES.get(item.type, np.object_)), shape)
