"""The bodies of changing calls: parsed strictly, since a typing mistake must not become another action."""

import json
from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeVar

import msgspec

from audiocpp.control.protocol import LOAD_TIMEOUT_S, UNLOAD_TIMEOUT_S

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class LoadBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    wait: bool = True
    timeout_s: Seconds = LOAD_TIMEOUT_S


class ExplainBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class UnloadBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `ids` or `all`, never both and never neither."""

    ids: list[str] | None = None
    all: bool = False
    force: bool = False
    timeout_s: Seconds = UNLOAD_TIMEOUT_S

    def __post_init__(self) -> None:
        if self.all == (self.ids is not None):
            raise ValueError('either `ids` (array of model ids) or `"all": true` is required')


class PullBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    package: str


class InvalidBody(Exception):
    """Has the shape of a `BackendError`."""

    status: ClassVar[int] = 400
    type: ClassVar[str] = "invalid_request_error"
    code: ClassVar[str] = "invalid_request"
    param: ClassVar[str | None] = None
    retry_after_s: ClassVar[float | None] = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


Body = TypeVar("Body", LoadBody, ExplainBody, UnloadBody, PullBody)


def parse_body(data: bytes, kind: type[Body]) -> Body:
    """Raises InvalidBody naming the field. Duplicate and unknown keys are refused."""
    try:
        return msgspec.convert(json.loads(data, object_pairs_hook=_distinct), kind)
    except (ValueError, RecursionError) as error:  # msgspec's and json's errors are ValueErrors
        raise InvalidBody(f"Request body: {error}") from error


def _distinct(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(name for name in names if names.count(name) > 1)!r}")
    return members
