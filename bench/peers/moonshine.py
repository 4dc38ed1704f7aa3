"""The `moonshine_voice` library's own transcriber, driven as its documentation does: read a WAV file, transcribe it.

`return_audio_data` is off, which spares it time and memory that the comparison has no use for; all else is as it comes.
"""

import time
from typing import Any

from moonshine_voice import ModelArch, Transcriber, get_model_path, load_wav_file  # type: ignore[import-not-found]

from bench.companion import serve


class Library:
    def load(self) -> dict[str, Any]:
        started = time.perf_counter()
        self._transcriber = Transcriber(get_model_path("tiny-en"), ModelArch.TINY, options={"return_audio_data": False})
        return {"wall_s": time.perf_counter() - started}

    def transcribe(self, path: str) -> dict[str, Any]:
        started = time.perf_counter()
        samples, sample_rate = load_wav_file(path)
        read_s = time.perf_counter() - started
        lines = self._transcriber.transcribe_without_streaming(samples, sample_rate).lines
        wall_s = time.perf_counter() - started
        return {"text": " ".join(line.text for line in lines), "wall_s": wall_s, "read_s": read_s}


if __name__ == "__main__":
    library = Library()
    serve(load=library.load, transcribe=library.transcribe)
