"""How WebSocket messages reach a route: in the pieces that they come in, so that a large one is never held whole."""

from typing import NamedTuple


class Piece(NamedTuple):
    """Part of a message: its beginning or what comes next. `last` ends the message."""

    data: str | bytes
    last: bool = True
