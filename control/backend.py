"""What the admin app asks of the daemon. The daemon implements it; nothing here knows how."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from audiocpp.control.protocol import (
    ExplainReply,
    LoadReply,
    ModelRow,
    PackageRow,
    PsRow,
    PullProgress,
    PullReply,
    PullStarted,
    StatusReply,
    UnloadReply,
)

ReportPull = Callable[[PullStarted | PullProgress], None]
"""Never blocks. To be called in the event loop's thread; progress may be dropped when the client reads slowly."""


@runtime_checkable
class BackendError(Protocol):
    """The shape of an exception that is a reply. Any other exception is a defect: it is logged and answered with 500.

    `retry_after_s`, where it is not None, becomes the Retry-After header.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None
    retry_after_s: float | None


class AdminBackend(Protocol):
    """Every method may raise a `BackendError`, and stops its work when it is cancelled (the client went away)."""

    async def status(self) -> StatusReply: ...

    async def models(self) -> list[ModelRow]:
        """All configured entries, in the order of the configuration."""

    async def ps(self) -> list[PsRow]:
        """The entries in any state but `unloaded` and `not_installed`."""

    async def load(self, model_id: str, *, wait: bool, timeout_s: float) -> LoadReply:
        """Make a model resident. Without `wait`, return once the load is admitted (state `loading`).

        Raises with code `request_timeout` when it is not resident after `timeout_s`; the load then goes on.
        """

    async def explain(self, model_id: str) -> ExplainReply:
        """What loading the model would mean: placement, estimate, evictions, every limit. Changes nothing."""

    async def unload(self, model_ids: Sequence[str] | None, *, force: bool, timeout_s: float) -> UnloadReply:
        """Take models out of memory, all of them when `model_ids` is None. Unknown ids change nothing and raise.

        Runs in progress are waited for, and `server_busy` is raised if one still goes on after `timeout_s`; with
        `force` they are cancelled.
        """

    async def packages(self) -> list[PackageRow]:
        """All packages of the catalogue, installed or not."""

    async def pull(self, package_id: str, report: ReportPull) -> PullReply:
        """Install a package. Reports what it is before anything is fetched; raises `package_not_found` if unknown."""
