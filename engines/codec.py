"""The codec family: media files to PCM and back, in the codec worker. It has no weights.

Decoding is by content, never by name, block by block, so that a two-hour file stays bounded. A crafted file that
brings a decoder down takes this process with it, not the daemon and not a model.
"""

import io
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import soundfile
import soxr

from audiocpp.engines import wire
from audiocpp.engines.audio import MAX_SAMPLE_RATE_HZ, MIN_SAMPLE_RATE_HZ
from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.encoding import Encoder, open_encoder
from audiocpp.engines.errors import InvalidInput, TooLarge, UnsupportedMedia
from audiocpp.engines.family import NEXT, Data, End, LoadContext, Run, Work
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioChunk, AudioFormat, AudioInfo, EncodedData, TaskRequest

BLOCK_S = 10.0
"""Audio decoded at a time: some milliseconds of work and 640 KB at 16 kHz. Each block costs a trip through
three threads and two processes: a clip of 10 s in blocks of 2 s took 2 ms longer."""

BLOCK_SAMPLES = 1 << 21
"""The same bound for high rates and many channels, of which libsndfile takes 1024."""

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x1a\x45\xdf\xa3", "WebM or Matroska"),
    (4, b"ftyp", "MP4 or M4A"),
    (0, b"\xff\xf1", "AAC (ADTS)"),
    (0, b"\xff\xf9", "AAC (ADTS)"),
    (0, b"\x30\x26\xb2\x75", "WMA (ASF)"),
    (0, b"#!AMR", "AMR"),
)
"""Offset and first bytes of containers that libsndfile does not read."""

_WAV_CODECS = frozenset({0x01, 0x02, 0x03, 0x06, 0x07, 0x11, 0x31, 0x38, 0x40, 0x55})
"""Format tags of WAV (RFC 2361) that libsndfile decodes: PCM, float, A-law and mu-law, ADPCM, GSM, MP3."""

_HEAD_BYTES = 4096
"""Enough of a file to recognise it, with the chunks that stand before the format of a WAV."""

ACCEPTED = "WAV, FLAC, OGG (Opus, Vorbis), MP3, AIFF, AU, CAF, W64 and RF64"


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


def _open(media: "Sequence[MediaFile]", control: RunControl) -> list[AudioInfo]:
    control.check()
    return [item.open() for item in media]


def _read(media: "Sequence[MediaFile]", control: RunControl) -> list[Float32]:
    control.check()
    return [item.read() for item in media]


class SequentialFile(soundfile.SoundFile):  # type: ignore[misc]
    """A file read from its start to its end. Otherwise every read ends with a seek, and a FLAC file whose length is
    not in its header cannot seek.
    """

    def seekable(self) -> bool:
        return False


class MediaFile:
    """An audio file read as mono float32 at `sample_rate` Hz, wherever it came from. Errors name `param`."""

    def __init__(self, source: str | io.BytesIO, sample_rate: int, max_seconds: float, *, param: str) -> None:
        self.sample_rate = sample_rate
        self._param = param
        self._source = source
        self._max_seconds = max_seconds
        self._file: SequentialFile | None = None
        self._resampler: soxr.ResampleStream | None = None
        self._block_frames = 0
        self._frames_read = 0
        self._ended = False

    def open(self) -> AudioInfo:
        """Reads the header. Raises `InvalidInput` or `UnsupportedMedia`."""
        try:
            file = self._file = SequentialFile(self._source)
        except soundfile.LibsndfileError as error:
            raise self._refusal(error) from error
        self._check_rate(file.samplerate)
        self._block_frames = min(int(BLOCK_S * file.samplerate), BLOCK_SAMPLES // file.channels)
        if file.samplerate != self.sample_rate:
            self._resampler = soxr.ResampleStream(file.samplerate, self.sample_rate, 1, dtype="float32")
        # A writer that could not seek back leaves a size of 2^31 or 2^32 in the header: the length is not known.
        known = file.frames < (1 << 29)
        return AudioInfo(
            container=file.format,
            codec=file.subtype,
            sample_rate=file.samplerate,
            channels=file.channels,
            duration_s=file.frames / file.samplerate if known else None,
        )

    def read(self) -> Float32:
        """The next samples, float32 (n,); empty at the end. Raises `TooLarge` past the longest accepted audio."""
        assert self._file is not None
        while not self._ended:
            try:
                block = self._file.read(self._block_frames, dtype="float32", always_2d=True)
            except soundfile.LibsndfileError as error:
                at = self._frames_read / self._file.samplerate
                raise self._invalid(f"damaged after {at:.2f} s: {error.error_string}") from error
            self._count(len(block))
            self._ended = len(block) == 0
            samples = self._resample(block.mean(axis=1, dtype=np.float32))
            if samples.size:
                return samples
        return np.zeros(0, np.float32)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _resample(self, mono: Float32) -> Float32:
        mono = np.nan_to_num(mono, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)
        if self._resampler is None:
            return mono
        resampled: Float32 = self._resampler.resample_chunk(mono, last=self._ended)
        return resampled

    def _count(self, frames: int) -> None:
        assert self._file is not None
        self._frames_read += frames
        if self._frames_read > self._max_seconds * self._file.samplerate:
            limit = f"longer than {self._max_seconds:g} s of audio (max_audio_seconds)"
            raise TooLarge(f"{self._param}: {limit}", param=self._param)

    def _check_rate(self, rate_hz: int) -> None:
        """Resampling from rates that no recording has takes minutes and gigabytes."""
        if not MIN_SAMPLE_RATE_HZ <= rate_hz <= MAX_SAMPLE_RATE_HZ:
            accepted = f"{MIN_SAMPLE_RATE_HZ}..{MAX_SAMPLE_RATE_HZ} Hz"
            raise self._invalid(f"its sample rate {rate_hz} is outside {accepted}")

    def _refusal(self, error: soundfile.LibsndfileError) -> InvalidInput | UnsupportedMedia:
        try:
            recognised = _undecodable(self._head())
        except OSError as cause:
            return self._invalid(f"cannot be read: {cause.strerror}")
        if recognised:
            message = f"{self._param}: {recognised} cannot be decoded here; accepted are {ACCEPTED}"
            return UnsupportedMedia(message, param=self._param)
        return self._invalid(f"no readable audio ({error.error_string}); accepted are {ACCEPTED}")

    def _invalid(self, why: str) -> InvalidInput:
        return InvalidInput(f"{self._param}: {why}", param=self._param)

    def _head(self) -> bytes:
        if isinstance(self._source, io.BytesIO):
            return self._source.getvalue()[:_HEAD_BYTES]
        with open(self._source, "rb") as file:  # noqa: PTH123 - a plain name from the wire
            return file.read(_HEAD_BYTES)


def _undecodable(head: bytes) -> str:
    """The name of what the file is, if it is known and libsndfile does not decode it; else empty."""
    for offset, signature, container in _SIGNATURES:
        if head[offset : offset + len(signature)] == signature:
            return container
    tag = _wav_format_tag(head)
    return "" if tag is None or tag in _WAV_CODECS else f"WAV with the codec 0x{tag:04X}"


def _wav_format_tag(head: bytes) -> int | None:
    """The format tag of a WAV file, of its sub-format where the header is extensible; None for other files."""
    at = head.find(b"fmt ", 12) + 8
    if head[:4] not in (b"RIFF", b"RF64") or head[8:12] != b"WAVE" or not 12 < at <= len(head) - 2:
        return None
    tag = int.from_bytes(head[at : at + 2], "little")
    return int.from_bytes(head[at + 24 : at + 26], "little") if tag == 0xFFFE else tag


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
