"""The framed messages between the control process and a worker, and nothing else: no sockets, no numpy.

A frame is a four-byte little-endian length and that many bytes of MessagePack. Audio travels inside frames as bytes,
in pieces of at most `MAX_PIECE_BYTES`. Both directions of a run have a window: who sends may have so many bytes
underway that the receiver has not yet reported as consumed, so memory stays bounded whoever is slow.
"""

import struct
from collections.abc import Iterator

import msgspec

from audiocpp.engines.tasks import AudioChunk, EncodedData, OptionValue, TaskEvent, TaskRequest

MAX_PIECE_BYTES = 64 << 10
"""Longest audio in one frame to a worker, where its run resamples it on the thread that all runs share: 8-bit samples
at 1 kHz, the most that a frame can come to, take 20 ms. Nor does a cancel or another run's frame wait long behind it.
"""

MAX_FRAME_BYTES = 16 << 20
"""A longer frame is a fault of the peer, not a message."""

INPUT_WINDOW_BYTES = 4 << 20
"""Input bytes of one run underway to a worker: 65 s of 16 kHz float32."""

OUTPUT_WINDOW_BYTES = 4 << 20
"""Output bytes of one run underway to the control process: 47 s of 22.05 kHz float32."""

_HEADER = struct.Struct("<I")


class LoadModel(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """Load a model under the name `model`. Answered by `Loaded` or `LoadFailed`."""

    model: str
    family: str
    files: dict[str, str]
    runtime: str
    providers: list[tuple[str, dict[str, str]]]
    threads: int
    options: dict[str, OptionValue] = {}
    cache_dir: str = ""


class UnloadModel(msgspec.Struct, frozen=True, tag="unload"):
    """Close a model that has no open run. Answered by `Unloaded`."""

    model: str


class OpenRun(msgspec.Struct, frozen=True, tag="open"):
    run: int
    model: str
    request: TaskRequest


class Push(msgspec.Struct, frozen=True, tag="push"):
    run: int
    data: bytes


class FinalizeRun(msgspec.Struct, frozen=True, tag="finalize"):
    run: int
    id: str


class FinishRun(msgspec.Struct, frozen=True, tag="finish"):
    """No further input of this run."""

    run: int


class CancelRun(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop the run as soon as may be. Answered by `RunDone` or `RunError`, also when it was ending anyway."""

    run: int


class AckOutput(msgspec.Struct, frozen=True, tag="ack"):
    """The receiver has taken so many output bytes of this run."""

    run: int
    size: int


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    pass


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker's loop runs."""

    pid: int


class GraphFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a graph really runs, as the runtime says. `uncached`: see `GraphPlacement`."""

    file: str
    runtime: str
    providers: list[str]
    details: dict[str, str] = {}
    uncached: str = ""


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """`load_s` without, `warm_up_s` for the first runs."""

    model: str
    load_s: float
    warm_up_s: float
    graphs: list[GraphFacts]


class LoadFailed(msgspec.Struct, frozen=True, kw_only=True, tag="load.failed"):
    model: str
    code: str
    message: str
    param: str | None = None


class Unloaded(msgspec.Struct, frozen=True, tag="unloaded"):
    model: str


class Event(msgspec.Struct, frozen=True, tag="event"):
    run: int
    event: TaskEvent


class Consumed(msgspec.Struct, frozen=True, tag="consumed"):
    """The run has taken so many input bytes."""

    run: int
    size: int


class RunDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The run's last message. `wall_ms` from the open to the end, `compute_ms` summed over its share of the work."""

    run: int
    wall_ms: float
    compute_ms: float


class RunError(msgspec.Struct, frozen=True, kw_only=True, tag="error"):
    """The run's last message: it failed or was cancelled (`code` of `engines.errors`)."""

    run: int
    code: str
    message: str
    param: str | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, tag="heartbeat"):
    """Sent about once a second from the loop. `oldest_work_s`: how long the longest computation has been running."""

    open_runs: int
    waiting_work: int
    oldest_work_s: float


Command = LoadModel | UnloadModel | OpenRun | Push | FinalizeRun | FinishRun | CancelRun | AckOutput | Shutdown
Reply = Ready | Loaded | LoadFailed | Unloaded | Event | Consumed | RunDone | RunError | Heartbeat

_encoder = msgspec.msgpack.Encoder()
_command_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
_reply_decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


class WireError(Exception):
    """The peer sent what is no frame or no message."""


def encode(message: Command | Reply) -> bytearray:
    """A frame."""
    frame = bytearray(_HEADER.size)
    _encoder.encode_into(message, frame, _HEADER.size)
    _HEADER.pack_into(frame, 0, len(frame) - _HEADER.size)
    return frame


def decode_command(body: bytes | bytearray | memoryview) -> Command:
    """The command in a frame's body. Raises `WireError`."""
    try:
        return _command_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"not a command: {error}") from error


def decode_reply(body: bytes | bytearray | memoryview) -> Reply:
    """The reply in a frame's body. Raises `WireError`."""
    try:
        return _reply_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"not a reply: {error}") from error


class FrameReader:
    """Cuts a byte stream into frame bodies. Bytes in, bodies out; the split of the input does not matter."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """Yields the bodies completed by `data`. Raises `WireError` on a frame longer than `MAX_FRAME_BYTES`."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _HEADER.size:
                (length,) = _HEADER.unpack_from(self._buffer, start)
                if length > MAX_FRAME_BYTES:
                    raise WireError(f"frame of {length} bytes; at most {MAX_FRAME_BYTES} are allowed")
                end = start + _HEADER.size + length
                if len(self._buffer) < end:
                    break
                body = bytes(memoryview(self._buffer)[start + _HEADER.size : end])
                start = end
                yield body
        finally:
            del self._buffer[:start]


def pieces(data: bytes | memoryview) -> Iterator[bytes]:
    """Cuts audio into pieces that fit a frame."""
    view = memoryview(data)
    for start in range(0, len(view), MAX_PIECE_BYTES):
        yield bytes(view[start : start + MAX_PIECE_BYTES])


def output_bytes(event: TaskEvent) -> int:
    """What an event counts against the output window."""
    match event:
        case AudioChunk():
            return len(event.pcm)
        case EncodedData():
            return len(event.data)
        case _:
            return 0
