"""Sessions that outlive a broken connection: each runs in a task of its own, and connections come and go.

Resource handling:
    A session holds its slot and its model until it is over, is aborted, or was held for `resume_ms` without a client.
    What its client has not confirmed is kept as long, so that a client that lost its connection at the very end still
    gets the end.
"""

import logging
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from audiocpp.daemon.backend import Backend
from audiocpp.daemon.errors import NotFound
from audiocpp.daemon.live.driver import SessionDriver
from audiocpp.daemon.live.messages import Lost, Send
from audiocpp.daemon.live.parameters import LiveParameters
from audiocpp.daemon.live.session import LiveSession
from audiocpp.daemon.tasks import TaskRun

log = logging.getLogger(__name__)

MOST_OVER = 256
"""Sessions that are over and kept for a client that has not confirmed their end: a text each."""


class HostedSession:
    """A session, and the one connection that it has or waits for."""

    def __init__(self, parameters: LiveParameters, run: TaskRun, scope: trio.CancelScope) -> None:
        entry = parameters.entry
        self.session = LiveSession(
            id=uuid.uuid4().hex,
            model=entry.id,
            audio=parameters.audio,
            limits=entry.live_ingest,
            opened_s=trio.current_time(),
            partials=parameters.partials,
            words=parameters.words,
            resume_ms=entry.resume_ms,
        )
        self.driver = SessionDriver(self.session)
        self.send_timeout_ms = entry.live_ingest.send_timeout_ms
        self._slot = run.slot
        self._scope = scope
        self._connection: trio.CancelScope | None = None
        self._changed = trio.Event()

    def created(self) -> Send:
        """The first event of the first connection."""
        return self.session.created()

    def resumed(self, offset: int | None) -> Send:
        """The first event of a further connection."""
        self._slot.use()
        self.driver.outbox.repeat_end()
        return self.session.resume(offset, self.driver.outbox.told, trio.current_time())

    def abort(self) -> None:
        """Ends the session without an answer. Its slot is free at once."""
        self._scope.cancel()

    @contextmanager
    def connected(self) -> Iterator[trio.CancelScope]:
        """A connection of the client. A new one takes the place of the one before: a client knows sooner than we do
        that a connection is dead. Whoever lost its place just ends.
        """
        if self._connection is not None:
            self._connection.cancel()
        with trio.CancelScope() as scope:
            self._connection = scope
            self._changed.set()
            yield scope

    def leave(self, scope: trio.CancelScope | None, *, goodbye: bool) -> None:
        """The connection has ended: with a `goodbye` of the client, which ends the session, or by itself."""
        if self._connection is not scope:
            return
        self._connection = None
        self._changed.set()
        if goodbye:
            self.abort()
            return
        self.driver.hear(Lost())
        if not self.session.is_over:
            self._slot.reserve(self.abort)

    async def confirmed(self) -> None:
        """Returns when no client has come for the end of the session in time. One that has it aborts the session."""
        while True:
            patience_s = self.session.resume_ms / 1e3 if self._connection is None else float("inf")
            with trio.move_on_after(patience_s) as patience:
                await self._changed.wait()
            if patience.cancelled_caught:
                return
            self._changed = trio.Event()


class LiveSessions:
    """All hosted sessions, by id."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, HostedSession] = OrderedDict()

    def find(self, session_id: str) -> HostedSession:
        """Raises `NotFound`."""
        hosted = self._sessions.get(session_id)
        if hosted is None:
            raise NotFound(
                "session_id: no such session: it has ended, was not resumed in time, or never was", param="session_id"
            )
        return hosted

    async def host(
        self,
        parameters: LiveParameters,
        backend: Backend,
        stopping: trio.Event,
        claim: "Claim",
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Runs a session for `claim`, which has it once it has its slot and its model; what stands in the way is
        raised.
        """
        try:
            with trio.CancelScope() as scope:
                opened = backend.session(
                    parameters.entry, parameters.request, busy_timeout_ms=parameters.busy_timeout_ms
                )
                async with opened as run:
                    claim.hosted = hosted = HostedSession(parameters, run, scope)
                    self._sessions[hosted.session.id] = hosted
                    task_status.started()
                    await hosted.driver.drive(run, stopping)
                if not hosted.session.forgotten:
                    await self._keep(hosted)
        except Exception:
            if claim.hosted is None:
                raise
            log.exception("A live session failed")
        finally:
            if claim.hosted is not None:
                self._sessions.pop(claim.hosted.session.id, None)

    async def _keep(self, hosted: HostedSession) -> None:
        """Waits for the client to have the end."""
        over = [other for other in self._sessions.values() if other.session.is_over]
        for other in over[: max(0, len(over) - MOST_OVER)]:
            other.abort()
        await hosted.confirmed()


class Claim:
    """Somebody's wish for a session. Who has it must `leave` it, also if cancelled in the moment of getting it."""

    hosted: HostedSession | None = None
