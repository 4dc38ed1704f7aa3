"""The bare engine in a process of its own: no daemon, no queue, no wire. The companion of the overhead benches.

It has imported what a worker process has when it is born, and its heap is set as a worker's is, so that what is left
between the two is the daemon's.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import audiocpp.engines.preload  # noqa: F401
from audiocpp.engines.codec import Codec
from audiocpp.engines.families import find_family
from audiocpp.engines.family import Data, LoadContext
from audiocpp.engines.graph import Graph, GraphOptions
from audiocpp.engines.inline import run_inline
from audiocpp.engines.process import use_one_heap
from audiocpp.engines.runtimes.onnxruntime import CPU, open_onnx
from audiocpp.engines.tasks import AudioChunk, AudioFormat, OptionValue, Segment, TaskName, TaskRequest, TextDelta
from bench.companion import serve

_MAX_SECONDS = 3600.0
_RATE_HZ = 16_000


class BareEngine:
    def load(self, family: str, files: dict[str, str], threads: int, cache_dir: str) -> dict[str, Any]:
        """Loads and warms up, as a worker does. Once per process: what is measured is a first load."""

        def open_graph(path: Path, options: GraphOptions) -> Graph:
            return open_onnx(path, options, providers=[(CPU, {})], threads=threads, cache_dir=Path(cache_dir))

        started = time.perf_counter()
        context = LoadContext({role: Path(path) for role, path in files.items()}, open_graph, threads=threads)
        self._model = find_family(family).load(context)
        self._model.warm_up()
        return {"wall_s": time.perf_counter() - started}

    def hear(self, path: str, task: TaskName = "asr") -> dict[str, Any]:
        """Decodes a file and runs the model on it: text and number of segments."""
        request = TaskRequest(task=task, audio=AudioFormat(sample_rate=_RATE_HZ))
        events = list(run_inline(self._model.run(request), _decoded(path)))
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        return {"text": text, "segments": sum(isinstance(event, Segment) for event in events)}

    def speak(self, text: str) -> dict[str, Any]:
        """Synthesizes a text: seconds of audio."""
        events = run_inline(self._model.run(TaskRequest(task="tts", text=text)))
        chunks = [event for event in events if isinstance(event, AudioChunk)]
        return {"audio_s": sum(len(chunk.pcm) / 4 / chunk.sample_rate for chunk in chunks)}

    def side_by_side(self, run: str, times: int, threads: int, arguments: dict[str, Any]) -> dict[str, Any]:
        """Runs the method `run` `times` times, in `threads` threads."""
        with ThreadPoolExecutor(threads) as pool:
            runs = [pool.submit(getattr(self, run), **arguments) for _ in range(times)]
            return {"last": [each.result() for each in runs][-1]}


def _decoded(path: str) -> Iterator[Data]:
    options: dict[str, OptionValue] = {"path": path, "sample_rate": _RATE_HZ, "max_seconds": _MAX_SECONDS}
    for event in run_inline(Codec().run(TaskRequest(task="decode", options=options))):
        if isinstance(event, AudioChunk):
            yield Data(event.pcm)


if __name__ == "__main__":
    use_one_heap()
    engine = BareEngine()
    serve(load=engine.load, hear=engine.hear, speak=engine.speak, side_by_side=engine.side_by_side)
