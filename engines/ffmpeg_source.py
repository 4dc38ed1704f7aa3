"""Media files by FFmpeg: what browsers and telephones record. Only what the file was recognised as is tried, so that a
crafted file reaches one demuxer and a few decoders.
"""

import errno
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from audiocpp.engines.containers import HEAD_BYTES, Container
from audiocpp.engines.graph import Float32
from audiocpp.engines.media_source import Undecodable, Unreadable, block_frames
from audiocpp.engines.tasks import AudioInfo

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

CODECS = frozenset({"aac", "alac", "flac", "mp3", "mp3float", "opus", "vorbis"})
"""And PCM."""

_CUT_OFF = (0x20464F45, errno.EIO)
"""What FFmpeg says of a header that is not complete: AVERROR_EOF, the tag `EOF `, or an error of reading."""


class FfmpegSource:
    """Needs the `ffmpeg` extra."""

    def __init__(self, source: str | io.BytesIO, container: Container) -> None:
        self._source = source
        self._container = container
        self._resources = ExitStack()
        self._frames: Iterator[AudioFrame] = iter(())
        self._first: AudioFrame | None = None
        self._rate_hz = 0
        self._check: Callable[[], None] = lambda: None

    def open(self) -> AudioInfo:
        import av

        # FFmpeg gets an open file, never a name: names may be URLs and lists of other files to it.
        file: io.BytesIO | BinaryIO
        if isinstance(self._source, io.BytesIO):
            file = self._source
        else:
            file = self._resources.enter_context(Path(self._source).open("rb"))  # noqa: SIM115 - entered
        try:
            media = av.open(file, "r", format=self._container.demuxer, metadata_errors="replace")
        except av.FFmpegError as error:
            if file.seek(0, io.SEEK_END) <= HEAD_BYTES and error.errno in _CUT_OFF:
                return self._empty()  # a recording that ended before it began
            raise Unreadable(error.strerror) from error
        track = self._audio_track(self._resources.enter_context(media))
        self._frames = self._decoded(media, track)
        # What the header of AAC says of the rate may be half of it.
        first = self._first = next(self._frames, None)
        if first is None:
            return self._empty()
        self._rate_hz = first.sample_rate
        return AudioInfo(
            container=self._container.name,
            codec=track.codec_context.name,
            sample_rate=self._rate_hz,
            channels=first.layout.nb_channels,
            duration_s=media.duration / av.time_base if media.duration else None,
        )

    def _audio_track(self, media: "InputContainer") -> "AudioStream":
        if not media.streams.audio:
            raise Unreadable("it has no audio track")
        track = media.streams.audio[0]
        if track.codec_context is None:
            raise Unreadable("the codec of its audio is not known")
        codec = track.codec_context.name
        if codec not in CODECS and not codec.startswith("pcm_"):
            raise Undecodable(f"{self._container.name} with the codec {codec}")
        return track

    def _empty(self) -> AudioInfo:
        if not self._container.has_header:
            raise Unreadable("not one frame can be decoded")
        return AudioInfo(container=self._container.name, codec="", sample_rate=16_000, channels=1, duration_s=0.0)

    def _decoded(self, media: "InputContainer", track: "AudioStream") -> "Iterator[AudioFrame]":
        """A packet that cannot be decoded is the end of a file that was cut off, or damage where another follows."""
        import av

        damage = ""
        try:
            for packet in media.demux(track):
                self._check()
                if damage and packet.size:
                    raise Unreadable(damage)
                try:
                    yield from packet.decode()
                except av.FFmpegError as error:
                    damage = str(error.strerror)
        except av.FFmpegError as error:
            raise Unreadable(error.strerror) from error

    def read(self, check: Callable[[], None]) -> Float32:
        self._check = check
        samples = [np.zeros(0, np.float32)]
        wanted = block_frames(max(self._rate_hz, 1), 1)
        while wanted > 0:
            frame, self._first = self._first or next(self._frames, None), None
            if frame is None:
                break
            samples.append(self._mono(frame))
            wanted -= frame.samples
        return np.concatenate(samples)

    def _mono(self, frame: "AudioFrame") -> Float32:
        import av

        if frame.sample_rate != self._rate_hz:
            raise Unreadable(f"its sample rate changes from {self._rate_hz} to {frame.sample_rate} Hz")
        planes = [part.to_ndarray() for part in av.AudioResampler(format="fltp").resample(frame)]
        mono: Float32 = np.concatenate(planes, axis=1).mean(axis=0, dtype=np.float32)
        return mono

    def close(self) -> None:
        self._frames = iter(())
        self._resources.close()
