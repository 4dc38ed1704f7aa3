"""Media files by libsndfile: WAV in all its forms, FLAC, OGG, MP3 and more, by content."""

import io
from collections.abc import Callable

import numpy as np
import soundfile

from audiocpp.engines.graph import Float32
from audiocpp.engines.media_source import Unreadable, block_frames
from audiocpp.engines.tasks import AudioInfo


class SequentialFile(soundfile.SoundFile):  # type: ignore[misc]
    """A file read from its start to its end. Otherwise every read ends with a seek, and a FLAC file whose length is
    not in its header cannot seek.
    """

    def seekable(self) -> bool:
        return False


class SndfileSource:
    def __init__(self, source: str | io.BytesIO) -> None:
        self._source = source
        self._file: SequentialFile | None = None

    def open(self) -> AudioInfo:
        try:
            file = self._file = SequentialFile(self._source)
        except soundfile.LibsndfileError as error:
            raise Unreadable(error.error_string) from error
        # A writer that could not seek back leaves a size of 2^31 or 2^32 in the header: the length is not known.
        known = file.frames < (1 << 29)
        return AudioInfo(
            container=file.format,
            codec=file.subtype,
            sample_rate=file.samplerate,
            channels=file.channels,
            duration_s=file.frames / file.samplerate if known else None,
        )

    def read(self, check: Callable[[], None]) -> Float32:
        assert self._file is not None
        check()
        frames = block_frames(self._file.samplerate, self._file.channels)
        try:
            block = self._file.read(frames, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise Unreadable(error.error_string) from error
        mono: Float32 = block.mean(axis=1, dtype=np.float32)
        return mono

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
