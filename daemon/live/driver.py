"""Drives a live session: performs what it decides on its run, and queues what its client is to be told.

Knows no transport. A transport hands in what it hears, waits for `room`, and sends what is in the `outbox`.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import trio

from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.live.close_codes import POLICY
from audiocpp.daemon.live.events import error_event
from audiocpp.daemon.live.ingest import IngestQueue
from audiocpp.daemon.live.messages import (
    Close,
    Effect,
    Finalize,
    Finish,
    Heard,
    Input,
    Move,
    Push,
    Restart,
    Restarted,
    RunBroke,
    RunEnded,
    Send,
    Stop,
    Tick,
)
from audiocpp.daemon.live.outbox import Outbox
from audiocpp.daemon.tasks import TaskRun

log = logging.getLogger(__name__)

TICK_S = 1.0
"""A deadline only moves later while one sleeps, or ends with the session; waking early costs nothing."""


class Machine(Protocol):
    """A session without I/O."""

    @property
    def is_over(self) -> bool: ...

    @property
    def settled(self) -> bool:
        """Whether the present run owes nothing that the client still waits for."""

    @property
    def deadline_s(self) -> float: ...

    def handle(self, heard: Input, now_s: float) -> list[Effect]: ...

    def touch(self, now_s: float) -> None: ...


class SessionDriver:
    """`hear` and `room` are for the transport's reading task, `outbox` for its sending task, `drive` for a third."""

    def __init__(self, machine: Machine) -> None:
        self.outbox = Outbox()
        self._machine = machine
        self._ingest = IngestQueue()
        self._over = trio.Event()
        self._heard = trio.lowlevel.ParkingLot()

    def hear(self, heard: Input) -> None:
        for effect in self._machine.handle(heard, trio.current_time()):
            match effect:
                case Send() | Close():
                    self.outbox.put(effect)
                case _:
                    self._ingest.put(effect)
        if self.outbox.overflows:
            reason = "the client does not read what it is sent"
            self.outbox.give_up(error_event(reason, "limit_exceeded"), Close(POLICY, reason))
            self._over.set()
        if self._machine.is_over:
            self._over.set()
        self._heard.unpark_all()

    async def room(self) -> None:
        """Waits while more is underway, in either direction, than is good."""
        await self._ingest.room()
        await self.outbox.room()

    async def drive(self, run: TaskRun | None, stopping: trio.Event | None) -> Move | None:
        """Returns when the session is over, or when it goes on with a run of another entry. What is in the outbox then
        may still be sent; the run is of no more use. None for a session that has no run yet.
        """
        moves: list[Move] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_clock)
            if stopping is not None:
                nursery.start_soon(self._watch_stop, stopping)
            nursery.start_soon(self._drive_runs, run, moves)
            await self._over.wait()
            nursery.cancel_scope.cancel()
        return self._moved(moves)

    async def _drive_runs(self, run: TaskRun | None, moves: list[Move]) -> None:
        """The run, and those that it is restarted as."""
        with self._reported():
            while True:
                async with trio.open_nursery() as nursery:
                    if run is not None:
                        nursery.start_soon(self._listen, run)
                    turn = await self._push(run)
                    nursery.cancel_scope.cancel()
                if isinstance(turn, Move):
                    moves.append(turn)
                    self._over.set()
                    return
                assert run is not None
                await run.restart(turn.request)
                self.hear(Restarted())

    def _moved(self, moves: list[Move]) -> Move | None:
        if self._machine.is_over or not moves:
            return None
        self._over = trio.Event()
        return moves[0]

    async def _push(self, run: TaskRun | None) -> Restart | Move:
        """Gives the run what waits for it, until another one is to take its place."""
        while not isinstance(work := await self._ingest.get(), Restart | Move):
            assert run is not None
            try:
                await _give(run, work)
            except DaemonError:
                await trio.sleep_forever()  # it is the run's error, which `_listen` gets as well and reports
        while not self._machine.settled:
            await self._heard.park()
        return work

    async def _listen(self, run: TaskRun) -> None:
        with self._reported():
            async for event in run:
                self.hear(Heard(event))
            self.hear(RunEnded())

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Whatever goes wrong with the run ends the session, with an answer."""
        try:
            yield
        except DaemonError as error:
            self.hear(RunBroke(error))
        except Exception:
            log.exception("A live session failed")
            self.hear(RunBroke(DaemonError("internal error; the log has the details")))

    async def _watch_clock(self) -> None:
        while True:
            await trio.sleep_until(min(self._machine.deadline_s, trio.current_time() + TICK_S))
            if self._ingest.full:
                self._machine.touch(trio.current_time())
            self.hear(Tick())

    async def _watch_stop(self, stopping: trio.Event) -> None:
        await stopping.wait()
        self.hear(Stop())


async def _give(run: TaskRun, work: Push | Finalize | Finish) -> None:
    match work:
        case Push(data):
            await run.push(data)
        case Finalize(token):
            await run.finalize(token)
        case Finish():
            await run.finish()
