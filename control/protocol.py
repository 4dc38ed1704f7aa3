"""What the admin socket speaks: paths, bodies, error codes and the exit codes they become.

Standard library only, and no `dataclasses` (its import costs a fifth of the command's budget): the replies are
TypedDicts, which are exactly the JSON objects on the wire. Fields are only ever added; a client ignores those it does
not know. Sizes are bytes, times are seconds.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Literal, TypedDict

ADMIN_VERSION: Final = 1
VERSION_HEADER: Final = "X-AudioCPP-Admin-Version"
ADMIN_HOST: Final = "audiocppd"
"""The `Host` that the client sends. `localhost` is accepted as well, for `curl --unix-socket`."""

PREFIX: Final = f"/admin/v{ADMIN_VERSION}"
STATUS_PATH: Final = f"{PREFIX}/status"
MODELS_PATH: Final = f"{PREFIX}/models"
PS_PATH: Final = f"{PREFIX}/ps"
LOAD_PATH: Final = f"{PREFIX}/load"
UNLOAD_PATH: Final = f"{PREFIX}/unload"
PACKAGES_PATH: Final = f"{PREFIX}/packages"
PULL_PATH: Final = f"{PREFIX}/pull"
EXPLAIN_PATH: Final = f"{PREFIX}/explain"

READER_GROUP: Final = "audiocpp"
WRITER_GROUP: Final = "audiocpp-admin"

LOAD_TIMEOUT_S: Final = 120.0
UNLOAD_TIMEOUT_S: Final = 30.0
HEARTBEAT_S: Final = 5.0
"""The longest silence in a stream of events: an `alive` event fills longer pauses."""

ModelState = Literal["not_installed", "unloaded", "loading", "ready", "busy", "draining", "failed"]


class ExitCode(IntEnum):
    """How `audiocppctl` ends. Stable; documented in docs/cli.md."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_REACHABLE = 3
    PERMISSION = 4
    NOT_FOUND = 5
    BUSY = 6
    INSUFFICIENT_MEMORY = 7
    TIMEOUT = 8
    VERSION_MISMATCH = 9


EXIT_CODES: Final[Mapping[str, ExitCode]] = {
    "forbidden": ExitCode.PERMISSION,
    "not_found": ExitCode.NOT_FOUND,
    "model_not_found": ExitCode.NOT_FOUND,
    "model_not_installed": ExitCode.NOT_FOUND,
    "package_not_found": ExitCode.NOT_FOUND,
    "server_busy": ExitCode.BUSY,
    "shutting_down": ExitCode.BUSY,
    "insufficient_memory": ExitCode.INSUFFICIENT_MEMORY,
    "request_timeout": ExitCode.TIMEOUT,
    "no_answer": ExitCode.TIMEOUT,
    "not_reachable": ExitCode.NOT_REACHABLE,
    "unknown_path": ExitCode.VERSION_MISMATCH,
    "version_mismatch": ExitCode.VERSION_MISMATCH,
}
"""Error codes, of the daemon and of the client itself, with an exit code of their own. All others are `FAILED`."""


def exit_code_of(code: str) -> ExitCode:
    return EXIT_CODES.get(code, ExitCode.FAILED)


class ErrorDetail(TypedDict):
    message: str
    type: str
    code: str
    param: str | None


class ErrorReply(TypedDict):
    """The body of every refusal, the same as on the public API."""

    error: ErrorDetail


class StatusReply(TypedDict):
    """`url` is the base of the public API (`http://127.0.0.1:8080`), None while it listens on no TCP port."""

    version: str
    pid: int
    state: Literal["running", "draining"]
    url: str | None
    uptime_s: float
    config_path: str | None
    models_root: str
    backend: str
    models: int
    resident: int
    resident_bytes: int
    active_requests: int
    queued_requests: int


class ModelRow(TypedDict):
    """A configured entry. `reason` says why it is `failed` or `not_installed`."""

    id: str
    family: str
    task: str
    mode: str
    state: ModelState
    package: str | None
    aliases: list[str]
    reason: str | None


class ModelsReply(TypedDict):
    models: list[ModelRow]


class PsRow(TypedDict):
    """An entry that is in memory, on its way in or out, or failed. None where a figure is not known (yet).

    `idle_s` counts from the model's last release; `retry_after_s` is what is left of a failed model's back-off.
    `reserved_slots` are kept for live clients that lost their connection.
    `longest_run_s` is the age of the oldest request that holds a slot; `overdue` is true when that is longer than
    requests wait for one.
    """

    id: str
    state: ModelState
    pid: int | None
    placement: str | None
    slots: int
    active_slots: int
    reserved_slots: int
    queued_requests: int
    resident_bytes: int | None
    peak_bytes: int | None
    limit_bytes: int | None
    idle_s: float | None
    longest_run_s: float | None
    overdue: bool
    reason: str | None
    retry_after_s: float | None


class PsReply(TypedDict):
    models: list[PsRow]


class LoadReply(TypedDict):
    """`changed` is false for a model that was resident already. `seconds` is None when the load was not waited for."""

    id: str
    changed: bool
    state: ModelState
    seconds: float | None
    resident_bytes: int | None
    placement: str | None


class LimitRow(TypedDict):
    """What a limit on memory still allows, loads in progress taken off."""

    name: str
    free_bytes: int


class PlacementRow(TypedDict):
    """Where a model could run, and why there."""

    backend: str
    device: int
    runtime: str
    providers: list[str]
    threads: int
    reason: str


class RefusalRow(TypedDict):
    """A backend that was looked at, and why it does not serve."""

    backend: str
    reason: str


RoomNow = Literal["resident", "now", "after_eviction", "after_waiting", "never"]


class ExplainReply(TypedDict):
    """What loading a model would mean now. Nothing is changed by asking.

    `room` is `resident` (it is loaded), `now`, `after_eviction` (of `evicts`), `after_waiting` (for models in use) or
    `never`; `binding_limit` names what stands in the way in the latter two cases. `estimate_source` is `measured` when
    the model has been loaded here before, else `rule`.
    """

    id: str
    state: ModelState
    reason: str | None
    missing_packages: list[str]
    estimate_bytes: int
    estimate_source: Literal["measured", "rule"]
    resident_bytes: int | None
    room: RoomNow
    evicts: list[str]
    binding_limit: str | None
    limits: list[LimitRow]
    placements: list[PlacementRow]
    refusals: list[RefusalRow]


class UnloadReply(TypedDict):
    """`released_bytes` was measured, not estimated."""

    changed: bool
    unloaded: list[str]
    not_resident: list[str]
    released_bytes: int


class PackageRow(TypedDict):
    """`size_bytes` is what it takes on disk once installed, `path` its folder when it is."""

    id: str
    family: str
    installed: bool
    license: str
    size_bytes: int | None
    path: str | None


class PackagesReply(TypedDict):
    packages: list[PackageRow]


class PullStarted(TypedDict):
    """First event of a pull: what is about to be fetched, and under which licence."""

    event: Literal["package"]
    package: str
    license: str
    size_bytes: int | None


class PullProgress(TypedDict):
    """`total_bytes` is None where a source does not say how long the file is."""

    event: Literal["progress"]
    package: str
    file: str
    done_bytes: int
    total_bytes: int | None


class PullReply(TypedDict):
    """Last event of a pull. `changed` is false when every file was there and complete."""

    event: Literal["done"]
    package: str
    changed: bool
    path: str
    seconds: float


class Alive(TypedDict):
    event: Literal["alive"]


class StreamFailed(TypedDict):
    """Last event of a stream whose work failed; its HTTP status, 200, had gone out before."""

    event: Literal["error"]
    error: ErrorDetail


PullEvent = PullStarted | PullProgress | PullReply
"""What a caller of the client sees; `alive` stays inside it and `error` is raised."""
