"""The codec family: media files to PCM and back, in the codec worker. It has no weights.

Decoding is by content, never by name, block by block, so that a two-hour file stays bounded. A crafted file that
brings a decoder down takes this process with it, not the daemon and not a model.
"""

import io
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import soxr

from audiocpp.engines import wire
from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.encoder import Encoder
from audiocpp.engines.encoding import open_encoder
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import NEXT, Data, End, LoadContext, Run, Work
from audiocpp.engines.graph import Float32
from audiocpp.engines.media import MediaFile
from audiocpp.engines.tasks import AudioChunk, AudioFormat, AudioInfo, EncodedData, TaskRequest


class Codec:
    """Tasks `decode` (option `path`, or the file as input; `sample_rate` in Hz; `max_seconds`; `param`, which errors
    name) and `encode` (`format`; `streamed`).

    `decode` answers with one `AudioInfo`, then `AudioChunk`s: mono at `sample_rate`. `encode` takes PCM in the
    request's audio format and answers with `EncodedData` as it is made; at the end come the corrections of the file,
    unless it is `streamed`.
    """

    name: ClassVar[str] = "codec"

    @classmethod
    def load(cls, context: LoadContext) -> "Codec":
        del context
        return cls()

    def warm_up(self) -> None:
        soxr.ResampleStream(44100, 16000, 1, dtype="float32").resample_chunk(np.zeros(4410, np.float32), last=True)

    def close(self) -> None:
        pass

    def run(self, request: TaskRequest) -> Run:
        if request.task == "decode":
            return _decode(request)
        if request.task == "encode":
            return _encode(request)
        raise InvalidInput(f"task {request.task!r} is not offered; the codec decodes and encodes", param="task")


def _decode(request: TaskRequest) -> Run:
    path = request.options.get("path")
    whole = bytearray()
    while not path and isinstance(item := (yield NEXT), Data):
        whole += item.data
    source = str(path) if path else io.BytesIO(whole)
    options = request.options
    media = MediaFile(
        source, int(options["sample_rate"]), float(options["max_seconds"]), param=str(options.get("param", "file"))
    )
    try:
        (info,) = yield Work(_open, [media])
        yield info
        while True:
            (block,) = yield Work(_read, [media])
            if block.size == 0:
                return
            yield AudioChunk(pcm=block.tobytes(), sample_rate=media.sample_rate)
    finally:
        media.close()


def _open(media: Sequence[MediaFile], control: RunControl) -> list[AudioInfo]:
    control.check()
    return [item.open() for item in media]


def _read(media: Sequence[MediaFile], control: RunControl) -> list[Float32]:
    return [item.read(control.check) for item in media]


def _encode(request: TaskRequest) -> Run:
    audio, options = request.audio, request.options
    if audio is None or audio.encoding != "f32le":
        raise InvalidInput("encoding takes float32 PCM", param="audio")
    streamed = bool(options.get("streamed"))
    encoder = open_encoder(str(options.get("format")), audio, streamed=streamed)
    try:
        rest = b""
        while not isinstance(item := (yield NEXT), End):
            if isinstance(item, Data):
                samples, rest = _whole_frames(rest + item.data, audio)
                (made,) = yield Work(_push, [(encoder, samples)])
                yield from map(EncodedData, wire.pieces(memoryview(made)))
        (made,) = yield Work(_finish, [encoder])
        yield from map(EncodedData, wire.pieces(memoryview(made)))
        if not streamed:
            yield from (EncodedData(data, at) for at, data in encoder.corrections)
    finally:
        encoder.close()


def _whole_frames(data: bytes, audio: AudioFormat) -> tuple[Float32, bytes]:
    """Samples float32 (n, channels), and the bytes of the frame that is not whole yet."""
    whole = len(data) - len(data) % audio.frame_bytes
    return np.frombuffer(data[:whole], "<f4").reshape(-1, audio.channels), data[whole:]


def _push(rows: Sequence[tuple[Encoder, Float32]], control: RunControl) -> list[bytes]:
    control.check()
    return [encoder.push(samples) for encoder, samples in rows]


def _finish(encoders: Sequence[Encoder], control: RunControl) -> list[bytes]:
    control.check()
    return [encoder.finish() for encoder in encoders]
