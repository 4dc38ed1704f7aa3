"""The table of admin calls: path, method, right, handler. A handler turns a call into a reply by asking the backend."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec

from audiocpp.control.backend import AdminBackend, BackendError
from audiocpp.control.bodies import ExplainBody, LoadBody, PullBody, UnloadBody, parse_body
from audiocpp.control.ndjson import Event, EventBody, Report
from audiocpp.control.peer import PeerCredentials
from audiocpp.control.protocol import (
    EXPLAIN_PATH,
    LOAD_PATH,
    MODELS_PATH,
    PACKAGES_PATH,
    PS_PATH,
    PULL_PATH,
    STATUS_PATH,
    UNLOAD_PATH,
    ErrorReply,
)
from audiocpp.control.rights import Right

logger = logging.getLogger(__name__)


class Call(msgspec.Struct, frozen=True):
    """One admin request whose right has been checked."""

    backend: AdminBackend
    peer: PeerCredentials
    body: bytes


Reply = Event | EventBody
Handler = Callable[[Call], Awaitable[Reply]]


class Route(msgspec.Struct, frozen=True):
    path: str
    method: str
    right: Right
    handler: Handler


def error_reply(error: BackendError) -> ErrorReply:
    return {"error": {"message": error.message, "type": error.type, "code": error.code, "param": error.param}}


def internal_error() -> ErrorReply:
    """For an exception that is no reply: its text may hold anything, so it goes to the log only."""
    message = "The daemon failed on this call; its log has the details."
    return {"error": {"message": message, "type": "server_error", "code": "internal_error", "param": None}}


async def _status(call: Call) -> Reply:
    return await call.backend.status()


async def _models(call: Call) -> Reply:
    return {"models": await call.backend.models()}


async def _ps(call: Call) -> Reply:
    return {"models": await call.backend.ps()}


async def _packages(call: Call) -> Reply:
    return {"packages": await call.backend.packages()}


async def _explain(call: Call) -> Reply:
    return await call.backend.explain(parse_body(call.body, ExplainBody).id)


async def _load(call: Call) -> Reply:
    body = parse_body(call.body, LoadBody)
    with _audited(call, "load", body.id):
        return await call.backend.load(body.id, wait=body.wait, timeout_s=body.timeout_s)


async def _unload(call: Call) -> Reply:
    body = parse_body(call.body, UnloadBody)
    with _audited(call, "unload", "*" if body.ids is None else ",".join(body.ids)):
        return await call.backend.unload(body.ids, force=body.force, timeout_s=body.timeout_s)


async def _pull(call: Call) -> Reply:
    body = parse_body(call.body, PullBody)

    async def work(report: Report) -> Event:
        try:
            with _audited(call, "pull", body.package):
                return await call.backend.pull(body.package, report)
        except Exception as error:  # noqa: BLE001 - the status line has gone out: the failure is the last event
            return {"event": "error", **_failure(error)}

    return EventBody(work)


def _failure(error: Exception) -> ErrorReply:
    if isinstance(error, BackendError):
        return error_reply(error)
    logger.error("Admin call failed", exc_info=error)
    return internal_error()


@contextmanager
def _audited(call: Call, verb: str, target: str) -> Iterator[None]:
    """Log a change with who asked for it and how it ended: `ok`, an error code, or `cancelled`."""
    result = "cancelled"
    try:
        yield
        result = "ok"
    except Exception as error:
        result = error.code if isinstance(error, BackendError) else "internal_error"
        raise
    finally:
        peer = call.peer
        fields = {"uid": peer.uid, "pid": peer.pid, "verb": verb, "target": target, "result": result}
        logger.info("%s %s by uid %d (pid %d): %s", verb, target, peer.uid, peer.pid, result, extra=fields)


ROUTES: tuple[Route, ...] = (
    Route(STATUS_PATH, "GET", Right.READ, _status),
    Route(MODELS_PATH, "GET", Right.READ, _models),
    Route(PS_PATH, "GET", Right.READ, _ps),
    Route(PACKAGES_PATH, "GET", Right.READ, _packages),
    Route(EXPLAIN_PATH, "POST", Right.READ, _explain),
    Route(LOAD_PATH, "POST", Right.WRITE, _load),
    Route(UNLOAD_PATH, "POST", Right.WRITE, _unload),
    Route(PULL_PATH, "POST", Right.WRITE, _pull),
)
