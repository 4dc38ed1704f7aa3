"""The `piper-tts` library's own voice, driven as its documentation does: load a voice, iterate over its audio chunks.

Arguments: the voice's `.onnx` file.
"""

import sys
import time
from typing import Any

from piper import PiperVoice  # type: ignore[import-not-found]

from bench.companion import serve


class Library:
    def __init__(self, model: str) -> None:
        self._model = model

    def load(self) -> dict[str, Any]:
        """Once per process: what is measured is a first load, its libraries imported."""
        started = time.perf_counter()
        self._voice = PiperVoice.load(self._model)
        return {"wall_s": time.perf_counter() - started}

    def synthesize(self, text: str) -> dict[str, Any]:
        started = time.perf_counter()
        first_s, sample_count = 0.0, 0
        for chunk in self._voice.synthesize(text):
            sample_count += len(chunk.audio_int16_bytes) // 2
            first_s = first_s or time.perf_counter() - started
        wall_s = time.perf_counter() - started
        return {"wall_s": wall_s, "first_s": first_s, "audio_s": sample_count / self._voice.config.sample_rate}


if __name__ == "__main__":
    library = Library(sys.argv[1])
    serve(load=library.load, synthesize=library.synthesize)
