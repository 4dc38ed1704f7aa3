"""The WebSocket close codes of live sessions, and which error has which."""

from audiocpp.daemon.errors import (
    DaemonError,
    InsufficientMemory,
    InvalidRequest,
    RequestTimeout,
    ServerBusy,
    ShuttingDown,
)

DONE, POLICY, TOO_LARGE, INTERNAL, RESTARTING, TRY_LATER = 1000, 1008, 1009, 1011, 1012, 1013

CLOSE_CODES = {
    DONE: "The final text has been sent.",
    POLICY: "A limit was exceeded or the model refused the input; an `error` event says which. Or another connection "
    "goes on with the session.",
    TOO_LARGE: "A frame was too large.",
    INTERNAL: "The model failed; an `error` event says how.",
    RESTARTING: "The daemon is stopping. What was heard has been answered.",
    TRY_LATER: "No place or no memory now.",
}

_OF_ERRORS: tuple[tuple[type[DaemonError], int], ...] = (
    (InvalidRequest, POLICY),
    (RequestTimeout, POLICY),
    (ShuttingDown, RESTARTING),
    (ServerBusy, TRY_LATER),
    (InsufficientMemory, TRY_LATER),
)


def close_code(error: DaemonError) -> int:
    """The code of a session that ends with `error`."""
    return next((code for kind, code in _OF_ERRORS if isinstance(error, kind)), INTERNAL)
