import os
import struct
from pathlib import Path

import pytest
from tests.fakes.public_api import wav_file

from audiocpp.control.pcm_source import Pacer, PcmFormat, PipeSource, WavSource, as_s16le


@pytest.mark.parametrize(
    ("packed", "width", "value"),
    [
        (struct.pack("<h", -12_345), 2, -12_345),
        (struct.pack("<i", -12_345 * 65_536 + 99), 4, -12_345),
        (struct.pack("<i", -12_345 * 256 + 9)[:3], 3, -12_345),
        (bytes([0]), 1, -32_768),
        (bytes([128]), 1, 0),
        (bytes([255]), 1, 127 * 256),
    ],
)
def test_samples_of_every_width_become_16_bit(packed: bytes, width: int, value: int) -> None:
    assert struct.unpack("<3h", as_s16le(packed * 3, width)) == (value,) * 3


def test_a_wav_file_tells_its_format_and_is_read_in_whole_frames(tmp_path: Path) -> None:
    path = tmp_path / "stereo.wav"
    path.write_bytes(wav_file(bytes(600), sample_rate=44_100, channels=2, width=3))
    source = WavSource(path)
    assert source.format == PcmFormat(44_100, 2, "s16le")
    pieces = []
    while piece := source.read(10):
        pieces.append(piece)
    source.close()
    assert [len(piece) for piece in pieces] == [8] * 50


def test_a_pipe_ends_when_its_writer_closes() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"abcdef")
    os.close(writer)
    source = PipeSource(reader, PcmFormat())
    assert [source.read(4), source.read(4), source.read(4)] == [b"abcd", b"ef", b""]
    os.close(reader)


def test_a_pacer_lets_audio_go_at_its_own_speed() -> None:
    pacer = Pacer(PcmFormat(16_000, 1, "s16le"), pace=2.0)
    assert pacer.due_in_s() == 0
    pacer.sent(64_000)  # two seconds, at twice the speed
    assert 0.5 < pacer.due_in_s() <= 1.0


def test_a_pacer_without_pace_never_waits() -> None:
    pacer = Pacer(PcmFormat(), pace=0)
    pacer.sent(10**9)
    assert pacer.due_in_s() == 0
