"""The frames between the control process and a worker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audiocpp.engines import wire
from audiocpp.engines.tasks import AudioChunk, AudioFormat, EncodedData, TaskRequest, TextDelta


def bodies(reader: wire.FrameReader, data: bytes, size: int) -> list[bytes]:
    return [body for start in range(0, len(data), size) for body in reader.feed(data[start : start + size])]


@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(min_value=1, max_value=64))
def test_messages_survive_any_split_of_the_stream(payloads: list[bytes], size: int) -> None:
    stream = b"".join(wire.encode(wire.Push(number, data)) for number, data in enumerate(payloads))
    commands = [wire.decode_command(body) for body in bodies(wire.FrameReader(), stream, size)]
    assert commands == [wire.Push(number, data) for number, data in enumerate(payloads)]


def test_a_request_arrives_as_it_was_sent() -> None:
    request = TaskRequest(task="asr", mode="streaming", audio=AudioFormat(sample_rate=8000), options={"partials": True})
    (body,) = wire.FrameReader().feed(wire.encode(wire.OpenRun(7, "m", request)))
    assert wire.decode_command(body) == wire.OpenRun(7, "m", request)


def test_events_arrive_as_they_were_sent() -> None:
    event = wire.Event(7, AudioChunk(pcm=b"\0\1", sample_rate=22050))
    (body,) = wire.FrameReader().feed(wire.encode(event))
    assert wire.decode_reply(body) == event


def test_a_frame_longer_than_allowed_is_refused_before_it_is_read() -> None:
    header = (wire.MAX_FRAME_BYTES + 1).to_bytes(4, "little")
    with pytest.raises(wire.WireError, match=str(wire.MAX_FRAME_BYTES)):
        list(wire.FrameReader().feed(header))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02\x03", b"hello"])
def test_garbage_is_no_message(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode_command(body)
    with pytest.raises(wire.WireError):
        wire.decode_reply(body)


def test_audio_is_cut_into_pieces_that_join_to_the_whole() -> None:
    data = bytes(range(256)) * 10_000
    parts = list(wire.pieces(data))
    assert b"".join(parts) == data
    assert max(map(len, parts)) <= wire.MAX_PIECE_BYTES


def test_only_audio_counts_against_the_output_window() -> None:
    assert wire.output_bytes(AudioChunk(pcm=bytes(8), sample_rate=16000)) == 8
    assert wire.output_bytes(EncodedData(bytes(5))) == 5
    assert wire.output_bytes(TextDelta("hello")) == 0
