"""Typed client of the admin socket. Standard library only; the command line speaks to the daemon through it alone."""

import http.client
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from audiocpp.control.failures import NotReachable, TimedOut, VersionMismatch, replied_error
from audiocpp.control.protocol import (
    ADMIN_VERSION,
    EXPLAIN_PATH,
    HEARTBEAT_S,
    LOAD_PATH,
    LOAD_TIMEOUT_S,
    MODELS_PATH,
    PACKAGES_PATH,
    PS_PATH,
    PULL_PATH,
    STATUS_PATH,
    UNLOAD_PATH,
    UNLOAD_TIMEOUT_S,
    VERSION_HEADER,
    ExplainReply,
    LoadReply,
    ModelsReply,
    PackagesReply,
    PsReply,
    PullEvent,
    StatusReply,
    UnloadReply,
)
from audiocpp.control.unix_http import UnixConnection, socket_candidates

ANSWER_TIMEOUT_S = 10.0


class AdminClient:
    """Calls the daemon behind the first live socket of `paths`. One connection a call; holds nothing open.

    Args:
        paths: socket paths in order of preference, by default where the daemon puts its socket.
        answer_timeout_s: how long the daemon may be silent, on top of the time that a call asks for.

    Every call raises a `failures.ControlError`: NotReachable, PermissionDenied, TimedOut, VersionMismatch, or what
    the daemon replied.
    """

    def __init__(self, paths: Sequence[str] | None = None, *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._paths = paths or socket_candidates(None, os.environ)
        self._answer_timeout_s = answer_timeout_s

    def status(self) -> StatusReply:
        return cast("StatusReply", self._call("GET", STATUS_PATH))

    def models(self) -> ModelsReply:
        return cast("ModelsReply", self._call("GET", MODELS_PATH))

    def ps(self) -> PsReply:
        return cast("PsReply", self._call("GET", PS_PATH))

    def packages(self) -> PackagesReply:
        return cast("PackagesReply", self._call("GET", PACKAGES_PATH))

    def load(self, model_id: str, *, wait: bool = True, timeout_s: float = LOAD_TIMEOUT_S) -> LoadReply:
        """Make a model resident; a no-op with `changed: false` when it is."""
        body = {"id": model_id, "wait": wait, "timeout_s": timeout_s}
        return cast("LoadReply", self._call("POST", LOAD_PATH, body, work_s=timeout_s))

    def explain(self, model_id: str) -> ExplainReply:
        """What loading a model would mean now; nothing is changed."""
        return cast("ExplainReply", self._call("POST", EXPLAIN_PATH, {"id": model_id}))

    def unload(
        self, model_ids: Sequence[str] | None, *, force: bool = False, timeout_s: float = UNLOAD_TIMEOUT_S
    ) -> UnloadReply:
        """Take models out of memory, all of them when `model_ids` is None."""
        which = {"all": True} if model_ids is None else {"ids": list(model_ids)}
        body = {**which, "force": force, "timeout_s": timeout_s}
        return cast("UnloadReply", self._call("POST", UNLOAD_PATH, body, work_s=timeout_s))

    def pull(self, package_id: str) -> Iterator[PullEvent]:
        """Install a package and yield its events as they come. Closing the iterator cancels the pull."""
        with self._answer("POST", PULL_PATH, {"package": package_id}, silence_s=HEARTBEAT_S) as response:
            for line in response:
                event = json.loads(line)
                if event["event"] == "error":
                    raise replied_error(event, status=response.status)
                if event["event"] != "alive":
                    yield cast("PullEvent", event)
                if event["event"] == "done":
                    return
            raise NotReachable("The daemon went away during the pull.")

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None, *, work_s: float = 0.0) -> object:
        with self._answer(method, path, body, silence_s=work_s) as response:
            return cast("object", json.loads(response.read()))

    @contextmanager
    def _answer(
        self, method: str, path: str, body: Mapping[str, object] | None, *, silence_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        """A successful response, its body unread. `silence_s`: how long the call may need before it says anything."""
        connection = UnixConnection(self._paths, timeout_s=silence_s + self._answer_timeout_s)
        try:
            with _transport_errors(connection):
                connection.request(method, path, *_encoded(body))
                response = connection.getresponse()
                _check_version(response, connection.path)
                if response.status != http.client.OK:
                    raise replied_error(_decoded(response), status=response.status)
                yield response
        finally:
            connection.close()


def _encoded(body: Mapping[str, object] | None) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    return json.dumps(body).encode(), {"Content-Type": "application/json"}


def _decoded(response: http.client.HTTPResponse) -> object:
    try:
        return json.loads(response.read())
    except ValueError:
        return None


def _check_version(response: http.client.HTTPResponse, path: str) -> None:
    spoken = response.getheader(VERSION_HEADER)
    if spoken == str(ADMIN_VERSION):
        return
    if spoken is None and response.status == http.client.SERVICE_UNAVAILABLE:
        return  # too many connections: refused before the admin app was asked
    other = "something else than audiocppd" if spoken is None else f"admin protocol {spoken}"
    raise VersionMismatch(f"At {path} answers {other}; this client speaks admin protocol {ADMIN_VERSION}.")


@contextmanager
def _transport_errors(connection: UnixConnection) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        message = f"The daemon at {connection.path} did not answer within {connection.timeout:g} s."
        raise TimedOut(message) from error
    except (http.client.BadStatusLine, http.client.IncompleteRead, ConnectionError) as error:
        raise _broken(connection.path, error) from error


def _broken(path: str, error: Exception) -> NotReachable | VersionMismatch:
    """RemoteDisconnected is a BadStatusLine and a ConnectionError: the peer hung up. Only the rest is not HTTP."""
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
        return VersionMismatch(f"What listens at {path} does not speak HTTP.")
    return NotReachable(f"The daemon at {path} closed the connection before it had answered.")
