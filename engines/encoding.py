"""PCM to the bytes of a file. Knows no run and no request.

Bytes leave as they are made, with a header that says that the length is not known. At the end an encoder tells how a
file that is kept whole is corrected, so that its header is right.
"""

import struct
from collections.abc import Sequence

import numpy as np
import soundfile

from audiocpp.engines import ffmpeg
from audiocpp.engines.aac_encoder import LAYOUTS, AacEncoder
from audiocpp.engines.encoder import Correction, Encoder
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.graph import Float32
from audiocpp.engines.sndfile_encoder import COMPRESSIONS, SndfileEncoder
from audiocpp.engines.tasks import AudioFormat

FORMATS = ("wav", "pcm", *COMPRESSIONS, "aac")
"""The last needs the `ffmpeg` extra."""

_UNKNOWN_SIZE = 0xFFFFFFFF


def open_encoder(name: str, audio: AudioFormat, *, streamed: bool) -> Encoder:
    """An encoder of PCM with the rate and channels of `audio`. Raises `InvalidInput` for what cannot be made.

    `streamed`: somebody listens while it is made.
    """
    if name not in FORMATS:
        raise _refusal(f"{name!r} is not made here; accepted are {', '.join(FORMATS)}")
    match name:
        case "wav":
            return WavEncoder(audio)
        case "pcm":
            return PcmEncoder()
        case "aac":
            return _open_aac(audio)
    try:
        return SndfileEncoder(COMPRESSIONS[name], audio, streamed=streamed)
    except soundfile.LibsndfileError as error:
        raise _impossible(name, audio) from error


def _open_aac(audio: AudioFormat) -> Encoder:
    if not ffmpeg.is_installed():
        raise _refusal(f"aac is not made here without FFmpeg: {ffmpeg.INSTALL_COMMAND}")
    if audio.channels not in LAYOUTS:
        raise _impossible("aac", audio)
    return AacEncoder(audio)


def _impossible(name: str, audio: AudioFormat) -> InvalidInput:
    return _refusal(f"{name} cannot have {audio.channels} channels at {audio.sample_rate} Hz")


def _refusal(why: str) -> InvalidInput:
    return InvalidInput(f"response_format: {why}", param="response_format")


class PcmEncoder:
    """16-bit little-endian samples without a header."""

    corrections: Sequence[Correction] = ()

    def push(self, samples: Float32) -> bytes:
        return to_pcm16(samples)

    def finish(self) -> bytes:
        return b""

    def close(self) -> None:
        pass


class WavEncoder:
    """A RIFF file of 16-bit PCM with the canonical header of 44 bytes, whose sizes are 0xFFFFFFFF until corrected."""

    def __init__(self, audio: AudioFormat) -> None:
        self.corrections: Sequence[Correction] = ()
        self._audio = audio
        self._header = wav_header(audio, None)
        self._data_bytes = 0

    def push(self, samples: Float32) -> bytes:
        pcm = to_pcm16(samples)
        self._data_bytes += len(pcm)
        header, self._header = self._header, b""
        return header + pcm

    def finish(self) -> bytes:
        self.corrections = [(0, wav_header(self._audio, self._data_bytes))]
        return self._header

    def close(self) -> None:
        pass


def wav_header(audio: AudioFormat, data_bytes: int | None) -> bytes:
    """The 44 bytes before 16-bit PCM. None, or more than the format can say: a size that means until the end."""
    frame_bytes = 2 * audio.channels
    whole = data_bytes if data_bytes is not None and data_bytes <= _UNKNOWN_SIZE - 36 else None
    sizes = (_UNKNOWN_SIZE, _UNKNOWN_SIZE) if whole is None else (36 + whole, whole)
    head = struct.pack("<4sI4s", b"RIFF", sizes[0], b"WAVE")
    rate = audio.sample_rate
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, audio.channels, rate, rate * frame_bytes, frame_bytes, 16)
    return head + form + struct.pack("<4sI", b"data", sizes[1])


def to_pcm16(samples: Float32) -> bytes:
    """16-bit little-endian PCM of float32 samples: clamped to [-1, 1], scaled by 32767 and rounded."""
    scaled = np.rint(np.clip(samples, -1.0, 1.0) * np.float32(32767.0))
    return bytes(scaled.astype("<i2").tobytes())
