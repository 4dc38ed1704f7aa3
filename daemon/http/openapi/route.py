"""What the table of routes says of one route."""

from collections.abc import Mapping
from typing import Any

import msgspec

from audiocpp.daemon.errors import DaemonError

JSON = "application/json"
FORM = "multipart/form-data"
EVENTS = "text/event-stream"


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of the query. `kind` is any type that msgspec describes; without `default` there is none."""

    name: str
    kind: Any
    description: str
    default: Any = None
    required: bool = False


class Content(msgspec.Struct, frozen=True):
    """One representation of a body. `kind` is the struct of JSON or of a form, a tuple of several that it may be, or
    None for text and audio.

    `events` are the structs of a stream of events, in the order of their first appearance.
    """

    media_type: str
    kind: Any = None
    events: tuple[type[msgspec.Struct], ...] = ()


class Reply(msgspec.Struct, frozen=True):
    """A reply that is no error."""

    description: str
    contents: tuple[Content, ...] = ()
    headers: Mapping[str, str] = {}


class Messages(msgspec.Struct, frozen=True):
    """What goes over a WebSocket once it is open. `binary` says what binary frames hold."""

    binary: str
    sent: tuple[type[msgspec.Struct], ...]
    received: tuple[type[msgspec.Struct], ...]
    close_codes: Mapping[int, str]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A route beside what its function says of itself. `errors` come on top of those that every route has."""

    tag: str
    reply: Reply
    status: int = 200
    query: tuple[Parameter, ...] = ()
    body: tuple[Content, ...] = ()
    errors: tuple[type[DaemonError], ...] = ()
    messages: Messages | None = None
    open: bool = False
    """Whether it is served without a key."""
