"""ONNX Runtime with real files: what is refused and how, the cache, cancellation, placement."""

import logging
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput, LoadError, RunCancelled
from audiocpp.engines.graph import GraphOptions
from audiocpp.engines.runtimes.onnxruntime import open_onnx

pytestmark = pytest.mark.integration

CPU = [("CPUExecutionProvider", {})]
STATE = np.zeros((1, 1, 128), np.float32)


def open_file(path: Path, cache_dir: Path | None = None, *, options: GraphOptions | None = None, providers=CPU):
    return open_onnx(path, options or GraphOptions(), providers=providers, threads=1, cache_dir=cache_dir)


@pytest.fixture
def onnx_file(models_root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(models_root / "silero_vad" / "silero_vad_16k_sequence.onnx", tmp_path))


@pytest.fixture
def ort_file(models_root: Path) -> Path:
    return models_root / "moonshine_tiny_en" / "encoder_model.ort"


def probabilities(graph, frames: int = 3) -> list[float]:
    generator = np.random.default_rng(1)
    feeds = {"input": generator.normal(0, 0.1, (frames, 576)).astype(np.float32), "h": STATE, "c": STATE}
    (found,) = graph.run(feeds, RunControl(), outputs=["speech_probs"])
    return found.tolist()


def test_a_graph_says_what_it_takes_and_where_it_runs(onnx_file: Path) -> None:
    graph = open_file(onnx_file)
    assert [(item.name, item.dtype, item.shape) for item in graph.inputs] == [
        ("input", np.float32, (None, 576)),
        ("h", np.float32, (1, 1, 128)),
        ("c", np.float32, (1, 1, 128)),
    ]
    assert [item.name for item in graph.outputs] == ["speech_probs", "hn", "cn"]
    assert graph.placement.runtime == "onnxruntime"
    assert graph.placement.providers == ("CPUExecutionProvider",)


def test_the_cached_graph_computes_the_same_and_is_made_once(onnx_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    expected = probabilities(open_file(onnx_file))
    for _ in range(2):
        np.testing.assert_allclose(probabilities(open_file(onnx_file, cache)), expected, atol=1e-5)
        (entry,) = cache.glob("*.ort")
        made = entry.stat().st_mtime_ns, entry.stat().st_ino
    open_file(onnx_file, cache)
    assert (entry.stat().st_mtime_ns, entry.stat().st_ino) == made


@pytest.mark.parametrize("damage", ["empty", "truncated", "another file"])
def test_a_damaged_cached_graph_is_built_anew(onnx_file: Path, tmp_path: Path, damage: str, caplog) -> None:
    cache = tmp_path / "cache"
    expected = probabilities(open_file(onnx_file, cache))
    (entry,) = cache.glob("*.ort")
    whole = entry.read_bytes()
    entry.unlink()  # the open graph above has it mapped
    entry.write_bytes({"empty": b"", "truncated": whole[: len(whole) // 2], "another file": b"x" * 5000}[damage])
    with caplog.at_level(logging.WARNING):
        assert probabilities(open_file(onnx_file, cache)) == expected
    assert "is damaged" in caplog.text
    caplog.clear()
    assert probabilities(open_file(onnx_file, cache)) == expected
    assert not caplog.records


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(onnx_file: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"")
    graph = open_file(onnx_file, blocked / "graphs")
    assert len(probabilities(graph)) == 3
    assert graph.placement.uncached == f"{blocked / 'graphs'}: Not a directory"
    assert open_file(onnx_file, tmp_path / "cache").placement.uncached == ""


def test_a_graph_may_be_kept_out_of_the_cache(onnx_file: Path, tmp_path: Path) -> None:
    open_file(onnx_file, tmp_path / "cache", options=GraphOptions(cache_optimized=False))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("kind", ["onnx", "ort"])
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "text"])
def test_a_file_that_is_no_graph_is_refused_by_name(
    onnx_file: Path, ort_file: Path, tmp_path: Path, kind: str, damage: str
) -> None:
    whole = (onnx_file if kind == "onnx" else ort_file).read_bytes()
    path = tmp_path / f"broken.{kind}"
    if damage != "missing":
        path.write_bytes({"empty": b"", "truncated": whole[: len(whole) // 3], "text": b"no graph\n" * 99}[damage])
    for cache in (None, tmp_path / "cache"):
        with pytest.raises(LoadError, match=str(path)):
            open_file(path, cache)


def test_a_provider_that_is_not_there_is_refused(onnx_file: Path) -> None:
    with pytest.raises(LoadError, match="CUDAExecutionProvider"):
        open_file(onnx_file, providers=[("CUDAExecutionProvider", {}), *CPU])


def test_a_wrong_shape_is_refused(onnx_file: Path) -> None:
    with pytest.raises(InvalidInput):
        open_file(onnx_file).run({"input": np.zeros((1, 77), np.float32), "h": STATE, "c": STATE}, RunControl())


def test_a_cancelled_run_ends_and_the_graph_stays_usable(onnx_file: Path) -> None:
    graph = open_file(onnx_file)
    feeds = {"input": np.zeros((60_000, 576), np.float32), "h": STATE, "c": STATE}
    control = RunControl()
    timer = threading.Timer(0.1, control.cancel)
    timer.start()
    with pytest.raises(RunCancelled):
        graph.run(feeds, control)
    timer.join()
    with pytest.raises(RunCancelled):
        graph.run(feeds, control)
    assert len(probabilities(graph)) == 3
