"""AAC in ADTS frames by FFmpeg."""

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from audiocpp.engines.encoder import Correction, RateFitting
from audiocpp.engines.graph import Float32
from audiocpp.engines.tasks import AudioFormat

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.packet import Packet

RATES_HZ = (7350, 8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000)
LAYOUTS = {1: "mono", 2: "stereo"}
CHANNEL_BITS_PER_S = 64_000


class AacEncoder:
    """Needs the `ffmpeg` extra. The channels are one of `LAYOUTS`."""

    corrections: Sequence[Correction] = ()

    def __init__(self, audio: AudioFormat) -> None:
        import av

        self._layout = LAYOUTS[audio.channels]
        self._fitting = RateFitting(audio, RATES_HZ)
        self._out = io.BytesIO()
        self._media = av.open(self._out, "w", format="adts")
        self._track = self._media.add_stream("aac", rate=self._fitting.rate_hz, layout=self._layout)
        self._track.bit_rate = CHANNEL_BITS_PER_S * audio.channels
        self._frames = 0

    def push(self, samples: Float32) -> bytes:
        self._encode(self._fitting.push(samples))
        return self._taken()

    def finish(self) -> bytes:
        self._encode(self._fitting.finish())
        self._write(self._track.encode(None))
        self._media.close()
        return self._taken()

    def close(self) -> None:
        self._media.close()

    def _encode(self, samples: Float32) -> None:
        import av

        if len(samples) == 0:
            return
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout=self._layout)
        frame.sample_rate = self._fitting.rate_hz
        frame.pts = self._frames
        self._frames += len(samples)
        self._write(self._track.encode(frame))

    def _write(self, packets: "Iterable[Packet[AudioStream]]") -> None:
        for packet in packets:
            self._media.mux(packet)

    def _taken(self) -> bytes:
        data = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return data
