"""Who is in memory: the state of every model, and what is to be done about it.

`Planner` is synchronous and pure bookkeeping: each call changes the state at once and returns the effects that
somebody else performs afterwards (`supervisor.py`). So no lock is held across an await, and every rule here is tested
without a process. A model is what entries with the same load key share; its leases are the requests that use it.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from audiocpp.daemon.errors import DaemonError, InsufficientMemory, ModelFailed, ModelNotInstalled
from audiocpp.daemon.eviction import Decision, Evict, Fits, Never, Wait
from audiocpp.daemon.lifecycle import Leaving, Model, State, Ticket, Trigger

CRASHES_ALLOWED = 3
"""Deaths of a worker in a row, with no request answered between, before the model is given up for a while."""

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0


class Load(msgspec.Struct, frozen=True):
    """Effect: load the model, then call `loaded` or `load_failed`."""

    model: str


class Unload(msgspec.Struct, frozen=True):
    """Effect: unload the model, then call `unloaded`."""

    model: str


class Grant(msgspec.Struct, frozen=True):
    """Effect: the ticket's model is resident, and leased when the ticket leases."""

    ticket: Ticket


class Refuse(msgspec.Struct, frozen=True):
    """Effect: the ticket ends with an error."""

    ticket: Ticket
    error: DaemonError


Effect = Load | Unload | Grant | Refuse


class Room(Protocol):
    """Knows the memory: whether one more model fits."""

    def decide(self, model: Model, others: Sequence[Model]) -> Decision:
        """Decides about loading `model` beside `others`, which are all models in memory or on their way in or out."""
        ...


class Planner:
    """The state of all models. Times are seconds of any one monotonic clock, given by the caller.

    Models that wait for room do so in one line, first come first served: a small model does not overtake a large one.
    """

    def __init__(self, models: Iterable[Model], room: Room) -> None:
        self.models = {model.name: model for model in models}
        self._room = room
        self._line: list[Model] = []

    # Which models there are.

    def adopt(self, model: Model) -> None:
        """Adds a model, or gives the one of that name its settings."""
        known = self.models.setdefault(model.name, model)
        known.label, known.pull_command = model.label, model.pull_command
        known.pinned, known.keep_alive_s, known.limit_bytes = model.pinned, model.keep_alive_s, model.limit_bytes
        known.retired = False

    def retire(self, name: str, *, now: float) -> list[Effect]:
        """Nobody will ask for the model any more. Those who have it, or wait for it, are served; then it leaves."""
        model = self.models[name]
        model.retired, model.pinned, model.keep_alive_s = True, False, 0.0
        return self.expire(now=now)

    def forget_retired(self) -> list[str]:
        """Removes the retired models that are gone, and tells which."""
        names = [model.name for model in self.models.values() if model.retired and model.is_gone]
        for name in names:
            del self.models[name]
        return names

    # What callers want.

    def request(self, ticket: Ticket, *, now: float) -> list[Effect]:
        """Asks for a model to be resident; the ticket is settled by the effects now or by those of a later call."""
        model = self.models[ticket.model]
        match model.state:
            case State.READY | State.BUSY:
                return [self._grant(model, ticket)]
            case State.NOT_INSTALLED:
                return [Refuse(ticket, _not_installed(model))]
            case State.FAILED if now < model.retry_at:
                return [Refuse(ticket, _failed(model, now))]
            case State.FAILED | State.UNLOADED:
                model.waiting.append(ticket)
                return self._join_line(model)
            case State.LOADING | State.DRAINING:
                model.waiting.append(ticket)
                return []

    def abandon(self, ticket: Ticket) -> list[Effect]:
        """Whoever holds the ticket has left before it was settled.

        A load in progress goes on, the next request profits; one that still waits for room is given up with the last
        who wanted it.
        """
        model = self.models[ticket.model]
        model.waiting.remove(ticket)
        if model.waiting or model not in self._line:
            return []
        self._leave_line(model)
        return self._fill()

    def release(self, ticket: Ticket, *, now: float, answered: bool) -> list[Effect]:
        """A lease ends. `answered`: the request got a reply, so the model works."""
        model = self.models[ticket.model]
        if ticket.life != model.life:
            return []  # its worker died meanwhile and took the lease along
        if answered:
            model.crashes = 0
        model.leases -= 1
        if model.leases:
            return []
        model.idle_since = now
        if model.state is State.DRAINING:
            return [Unload(model.name)]
        model.apply(Trigger.RELEASED)
        return [*self._fill(), *self.expire(now=now)]

    def expire(self, *, now: float) -> list[Effect]:
        """Unloads the models that have been idle for longer than they are kept."""
        return [
            effect
            for model in self.models.values()
            if model.state is State.READY and not model.pinned and _expires_at(model) <= now
            for effect in self.drain(model.name, Leaving.IDLE)
        ]

    def retry(self) -> list[Effect]:
        """Looks again at those who wait for room: it may have come from outside."""
        return self._fill()

    def shed(self) -> list[Effect]:
        """Unloads the idle model that was used longest ago: memory is short on the machine."""
        idle = [model for model in self.models.values() if model.state is State.READY and not model.pinned]
        if not idle:
            return []
        return self.drain(min(idle, key=lambda model: model.idle_since).name, Leaving.PRESSURE)

    def next_expiry(self) -> float:
        """When `expire` has something to do next; infinity when nothing is idle."""
        idle = (model for model in self.models.values() if model.state is State.READY and not model.pinned)
        return min((_expires_at(model) for model in idle), default=float("inf"))

    def waits_for_room(self, name: str) -> bool:
        """Whether the model has not even begun to load, for want of memory or of a place."""
        model = self.models[name]
        return model in self._line or model.state is State.DRAINING

    def drain(self, name: str, reason: Leaving = Leaving.ASKED) -> list[Effect]:
        """Asks for a resident model to be unloaded as soon as its leases have ended. Later requests load it again."""
        model = self.models[name]
        if model.state not in (State.READY, State.BUSY):
            return []
        model.apply(Trigger.DRAIN)
        model.leaving = reason
        return [] if model.leases else [Unload(name)]

    def keep(self, name: str) -> list[Effect]:
        """Takes a `drain` back while leases keep the model; those who wait for it are served after all."""
        model = self.models[name]
        if model.state is not State.DRAINING or not model.leases:
            return []
        model.apply(Trigger.KEEP)
        model.apply(Trigger.LEASED)
        return self._grant_waiting(model)

    # What happened.

    def loaded(self, name: str, *, now: float) -> list[Effect]:
        model = self.models[name]
        model.apply(Trigger.LOADED)
        model.failures, model.reason, model.idle_since = 0, "", now
        return [*self._grant_waiting(model), *self._fill()]

    def load_failed(self, name: str, error: DaemonError, *, now: float) -> list[Effect]:
        model = self.models[name]
        model.apply(Trigger.LOAD_FAILED)
        self._back_off(model, error.message, now)
        return [*self._refuse_waiting(model, error), *self._fill()]

    def unloaded(self, name: str) -> list[Effect]:
        model = self.models[name]
        model.apply(Trigger.UNLOADED)
        self._forget_leases(model)
        return self._load_for_waiting(model)

    def died(self, name: str, reason: str, *, now: float, error: DaemonError | None = None) -> list[Effect]:
        """The model's worker has ended by itself. Leases are void: their runs have failed.

        `error` is what those are told who wait for the load, where more is known than that it failed.
        """
        model = self.models[name]
        if model.state in (State.NOT_INSTALLED, State.UNLOADED, State.FAILED):
            return []
        self._forget_leases(model)
        if model.state is State.DRAINING:
            model.apply(Trigger.DIED)
            return self._load_for_waiting(model)
        model.crashes += 1
        if model.state is not State.LOADING and model.crashes <= CRASHES_ALLOWED:
            model.apply(Trigger.DIED)
            return self._fill()
        model.apply(Trigger.DIED if model.state is State.LOADING else Trigger.GAVE_UP)
        self._back_off(model, reason, now)
        return [*self._refuse_waiting(model, error or _failed(model, now)), *self._fill()]

    def set_installed(self, name: str, *, installed: bool) -> None:
        """The package came or went."""
        model = self.models[name]
        if installed and model.state is State.NOT_INSTALLED:
            model.apply(Trigger.INSTALLED)
        elif not installed and model.state in (State.UNLOADED, State.FAILED):
            model.apply(Trigger.REMOVED)

    # Steps shared by the above.

    def _grant(self, model: Model, ticket: Ticket) -> Grant:
        if ticket.leases:
            model.apply(Trigger.LEASED)
            model.leases += 1
            ticket.life = model.life
        return Grant(ticket)

    def _forget_leases(self, model: Model) -> None:
        model.leases = 0
        model.life += 1

    def _grant_waiting(self, model: Model) -> list[Effect]:
        waiting, model.waiting = model.waiting, []
        return [self._grant(model, ticket) for ticket in waiting]

    def _refuse_waiting(self, model: Model, error: DaemonError) -> list[Effect]:
        waiting, model.waiting = model.waiting, []
        return [Refuse(ticket, error) for ticket in waiting]

    def _load_for_waiting(self, model: Model) -> list[Effect]:
        return self._join_line(model) if model.waiting else self._fill()

    def _join_line(self, model: Model) -> list[Effect]:
        if model not in self._line:
            self._line.append(model)
        return self._fill()

    def _leave_line(self, model: Model) -> None:
        self._line.remove(model)
        model.blocked = None

    def _fill(self) -> list[Effect]:
        """Loads those at the head of the line while there is room, or makes room for the first.

        Called whenever room may have come: a load, an unload, an idle model, a death.
        """
        effects: list[Effect] = []
        while self._line:
            model = self._line[0]
            decision = self._room.decide(model, self.in_memory())
            match decision:
                case Fits():
                    self._leave_line(model)
                    model.apply(Trigger.LOAD)
                    effects.append(Load(model.name))
                case Never():
                    self._leave_line(model)
                    effects += self._refuse_waiting(model, _too_large(model, decision))
                case Evict(victims):
                    model.blocked = None
                    return effects + [effect for name in victims for effect in self.drain(name, Leaving.ROOM)]
                case Wait():
                    model.blocked = decision
                    return effects
        return effects

    def in_memory(self) -> list[Model]:
        """The models in memory, or on their way in or out."""
        absent = (State.NOT_INSTALLED, State.UNLOADED, State.FAILED)
        return [model for model in self.models.values() if model.state not in absent]

    def _back_off(self, model: Model, reason: str, now: float) -> None:
        model.reason = reason
        model.retry_at = now + min(FIRST_BACKOFF_S * 2**model.failures, LONGEST_BACKOFF_S)
        model.failures += 1


def _expires_at(model: Model) -> float:
    return float("inf") if model.keep_alive_s is None else model.idle_since + model.keep_alive_s


def _too_large(model: Model, decision: Never) -> InsufficientMemory:
    held = f"; held by {', '.join(decision.holders)}" if decision.holders else ""
    return InsufficientMemory(
        f"model {model.label!r} needs {_mib(decision.needed_bytes)}, but {decision.limit} allows "
        f"{_mib(decision.available_bytes)}{held}",
        retry_after_s=LONGEST_BACKOFF_S,
    )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"


def _not_installed(model: Model) -> ModelNotInstalled:
    return ModelNotInstalled(
        f"model {model.label!r} is not installed; install it with: {model.pull_command}", param="model"
    )


def _failed(model: Model, now: float) -> ModelFailed:
    wait_s = model.retry_at - now
    return ModelFailed(
        f"model {model.label!r} failed ({model.reason}); the next attempt is possible in {wait_s:.1f} s",
        retry_after_s=wait_s,
    )
