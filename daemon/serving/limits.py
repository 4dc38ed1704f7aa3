"""The numbers of the transport."""

import msgspec

KIB = 1024
MIB = 1024 * KIB


class ServingLimits(msgspec.Struct, frozen=True):
    """Bounds of connections.

    Attributes:
        max_connections: further ones are answered 503 and closed.
        header_timeout_s: from the first byte of a request (or the accept) to the end of its headers.
        keep_alive_s: a connection without a request is closed after it.
        write_timeout_s: a client that takes no byte for so long is dropped.
        linger_s, linger_bytes: how long and how much is read after our last byte, so that a client that is still
            sending gets to read the answer: closing at once would reset the connection and destroy it.
        drain_s: how long running requests may go on once `serve` is told to stop.
        ping_interval_s, missed_pongs: a WebSocket is dropped when that many pings in a row stay unanswered.
        max_header_bytes: request line and headers.
        max_message_bytes: one WebSocket message.
    """

    max_connections: int = 512
    header_timeout_s: float = 10.0
    keep_alive_s: float = 60.0
    write_timeout_s: float = 30.0
    linger_s: float = 2.0
    linger_bytes: int = 2 * MIB
    drain_s: float = 10.0
    ping_interval_s: float = 15.0
    missed_pongs: int = 2
    max_header_bytes: int = 64 * KIB
    max_message_bytes: int = 8 * MIB
