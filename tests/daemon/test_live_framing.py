"""Chunk framing as bytes: what is read, and what is refused with which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audiocpp.daemon.live.framing import MAX_LINE_BYTES, ChunkedBody, FramingError


def read(body: ChunkedBody, *received: bytes) -> bytes:
    return b"".join(piece.data for data in received for piece in body.feed(data))


def body(max_chunk_bytes: int = 1 << 20) -> ChunkedBody:
    return ChunkedBody(max_chunk_bytes=max_chunk_bytes)


def framed(*chunks: bytes, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    return b"".join(b"%x%s\r\n%s\r\n" % (len(data), extension, data) for data in chunks) + b"0\r\n" + trailer + b"\r\n"


def test_chunks_are_joined() -> None:
    chunked = body()
    assert read(chunked, framed(b"abc", b"de" * 40)) == b"abc" + b"de" * 40
    assert chunked.complete
    chunked.close()


def test_extensions_and_trailers_are_read_over() -> None:
    chunked = body()
    assert read(chunked, framed(b"abc", extension=b';name="va;lue"', trailer=b"X-Sum: 1\r\nY: 2\r\n")) == b"abc"
    assert chunked.complete


@pytest.mark.parametrize("line", [b"3 ;x\r\n", b"3\t\r\n", b"003\r\n", b"3;\r\n"])
def test_a_size_may_be_followed_by_white_space_or_begin_with_zeros(line: bytes) -> None:
    assert read(body(), line + b"abc\r\n0\r\n\r\n") == b"abc"


def test_what_follows_the_body_is_left_alone() -> None:
    chunked = body()
    assert read(chunked, framed(b"abc") + b"GET / HTTP/1.1\r\n") == b"abc"
    assert chunked.complete


@pytest.mark.parametrize(
    ("received", "message"),
    [
        (b"xyz\r\n", "invalid chunk size"),
        (b"\r\n", "invalid chunk size"),
        (b"-3\r\n", "invalid chunk size"),
        (b"0x3\r\n", "invalid chunk size"),
        (b"3 4\r\n", "invalid chunk size"),
        (b"3\r\nabcX\r\n", "not terminated by CRLF"),
        (b"3\r\nabc\nX", "not terminated by CRLF"),
        (b"3\r\nabc\rX", "not terminated by CRLF"),
        (b"100001\r\n", "chunk size exceeds the maximum"),
        (b"f" * 40 + b"\r\n", "chunk size exceeds the maximum"),
        (b"3;" + bytes(MAX_LINE_BYTES), "chunk header exceeds 8192 bytes"),
        (b"0\r\nX: " + bytes(MAX_LINE_BYTES), "trailer exceeds 8192 bytes"),
        (b"0\r\n" + b"X: 12345\r\n" * 1000, "trailers exceed 8192 bytes"),
    ],
)
def test_what_is_no_chunk_is_refused_by_its_name(received: bytes, message: str) -> None:
    with pytest.raises(FramingError, match=message):
        read(body(), received)


def test_the_largest_chunk_is_read() -> None:
    assert read(body(4), framed(b"abcd")) == b"abcd"


@pytest.mark.parametrize(
    "received", [b"", b"3", b"3\r\n", b"3\r\nab", b"3\r\nabc", b"3\r\nabc\r\n", b"0\r\n", b"0\r\nX: 1\r\n"]
)
def test_an_early_end_is_no_normal_one(received: bytes) -> None:
    chunked = body()
    read(chunked, received)
    with pytest.raises(FramingError, match="closed before the terminating chunk"):
        chunked.close()


def test_the_data_before_a_fault_is_not_lost() -> None:
    pieces = body().feed(b"3\r\nabc\r\nzz\r\n")
    assert next(pieces).data == b"abc"
    with pytest.raises(FramingError):
        next(pieces)


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    extension=st.sampled_from([b"", b";a=b"]),
    trailer=st.sampled_from([b"", b"X: 1\r\n"]),
    sizes=st.lists(st.integers(1, 30), min_size=1),
)
def test_any_split_of_the_bytes_gives_the_same(
    chunks: list[bytes], extension: bytes, trailer: bytes, sizes: list[int]
) -> None:
    wire = framed(*chunks, extension=extension, trailer=trailer)
    chunked, pieces, at, turn = body(), [], 0, 0
    while at < len(wire):
        size = sizes[turn % len(sizes)]
        pieces += chunked.feed(wire[at : at + size])
        at, turn = at + size, turn + 1
    assert b"".join(piece.data for piece in pieces) == b"".join(chunks)
    assert sum(piece.last for piece in pieces) == len(chunks)
    assert chunked.complete
    behind = len(b"\r\n0\r\n" + trailer + b"\r\n") if chunks else len(wire)
    assert sum(len(piece.data) + piece.framing_bytes for piece in pieces) == len(wire) - behind


@given(received=st.binary(max_size=200))
def test_no_bytes_bring_it_down(received: bytes) -> None:
    chunked = body(16)
    try:
        read(chunked, received)
        chunked.close()
    except FramingError:
        return
    assert chunked.complete
