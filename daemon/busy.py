"""How long a request waits for a slot: three layers, of which a client can only shorten the wait."""


def effective_busy_timeout_ms(ceiling_ms: int, requested_ms: int | None) -> int:
    """The bound on one request's wait; 0 means none.

    Args:
        ceiling_ms: of the entry, else of the server; 0 means none.
        requested_ms: the request's own; 0 or None means none, so it cannot lift a ceiling.
    """
    bounds = [bound for bound in (ceiling_ms, requested_ms) if bound is not None and bound > 0]
    return min(bounds, default=0)


def is_overdue(held_ms: float, timeout_ms: int) -> bool:
    """Whether a slot has been held for longer than a request would wait; never under an unbounded wait."""
    return timeout_ms > 0 and held_ms > timeout_ms
