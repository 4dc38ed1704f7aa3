"""Who is in memory: the state of every model, and what is to be done about it.

`Planner` is synchronous and pure bookkeeping: each call changes the state at once and returns the effects that
somebody else performs afterwards (`supervisor.py`). So no lock is held across an await, and every rule here is tested
without a process. A model is what entries with the same load key share; its leases are the requests that use it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from audiocpp.daemon.errors import DaemonError, ModelFailed, ModelNotInstalled


class State(StrEnum):
    NOT_INSTALLED = "not_installed"
    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    FAILED = "failed"


class Trigger(StrEnum):
    INSTALLED = "installed"
    REMOVED = "removed"
    LOAD = "load"
    LOADED = "loaded"
    LOAD_FAILED = "load_failed"
    LEASED = "leased"
    RELEASED = "released"
    DRAIN = "drain"
    KEEP = "keep"
    UNLOADED = "unloaded"
    DIED = "died"
    GAVE_UP = "gave_up"


TRANSITIONS: dict[tuple[State, Trigger], State] = {
    (State.NOT_INSTALLED, Trigger.INSTALLED): State.UNLOADED,
    (State.UNLOADED, Trigger.REMOVED): State.NOT_INSTALLED,
    (State.UNLOADED, Trigger.LOAD): State.LOADING,
    (State.LOADING, Trigger.LOADED): State.READY,
    (State.LOADING, Trigger.LOAD_FAILED): State.FAILED,
    (State.LOADING, Trigger.DIED): State.FAILED,
    (State.READY, Trigger.LEASED): State.BUSY,
    (State.READY, Trigger.DRAIN): State.DRAINING,
    (State.READY, Trigger.DIED): State.UNLOADED,
    (State.READY, Trigger.GAVE_UP): State.FAILED,
    (State.BUSY, Trigger.LEASED): State.BUSY,
    (State.BUSY, Trigger.RELEASED): State.READY,
    (State.BUSY, Trigger.DRAIN): State.DRAINING,
    (State.BUSY, Trigger.DIED): State.UNLOADED,
    (State.BUSY, Trigger.GAVE_UP): State.FAILED,
    (State.DRAINING, Trigger.KEEP): State.READY,
    (State.DRAINING, Trigger.UNLOADED): State.UNLOADED,
    (State.DRAINING, Trigger.DIED): State.UNLOADED,
    (State.FAILED, Trigger.LOAD): State.LOADING,
    (State.FAILED, Trigger.REMOVED): State.NOT_INSTALLED,
}
"""Every pair that is not here is a fault of the caller. BUSY stays BUSY until its last lease is released."""

CRASHES_ALLOWED = 3
"""Deaths of a worker in a row, with no request answered between, before the model is given up for a while."""

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0


class Unexpected(Exception):  # noqa: N818 - names what happened
    """A trigger that the state does not allow: a programming error."""


@dataclass(slots=True, eq=False)
class Ticket:
    """Somebody who wants a model. Settled once, by `Grant` or `Refuse`; a lease is then given back by `release`.

    `life` counts the model's loads: a lease of an earlier life ended when its worker died.
    """

    model: str
    leases: bool = True
    life: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """Effect: load the model, then call `loaded` or `load_failed`."""

    model: str


@dataclass(frozen=True, slots=True)
class Unload:
    """Effect: unload the model, then call `unloaded`."""

    model: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Effect: the ticket's model is resident, and leased when the ticket leases."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Refuse:
    """Effect: the ticket ends with an error."""

    ticket: Ticket
    error: DaemonError


Effect = Load | Unload | Grant | Refuse


@dataclass(slots=True)
class Model:
    """A model that can be resident. `name` is the load key; `label` is what messages call it."""

    name: str
    label: str
    pull_command: str
    state: State = State.UNLOADED
    leases: int = 0
    life: int = 0
    waiting: list[Ticket] = field(default_factory=list)
    idle_since: float = 0.0
    crashes: int = 0
    failures: int = 0
    reason: str = ""
    retry_at: float = 0.0


class Planner:
    """The state of all models. Times are seconds of any one monotonic clock, given by the caller."""

    def __init__(self, models: Iterable[Model]) -> None:
        self.models = {model.name: model for model in models}

    def _apply(self, model: Model, trigger: Trigger) -> None:
        try:
            model.state = TRANSITIONS[model.state, trigger]
        except KeyError:
            raise Unexpected(f"{model.label}: {trigger} while {model.state}") from None

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
                self._apply(model, Trigger.LOAD)
                model.waiting.append(ticket)
                return [Load(model.name)]
            case State.LOADING | State.DRAINING:
                model.waiting.append(ticket)
                return []

    def abandon(self, ticket: Ticket) -> None:
        """Whoever holds the ticket has left before it was settled. The load goes on: the next request profits."""
        self.models[ticket.model].waiting.remove(ticket)

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
        self._apply(model, Trigger.RELEASED)
        return []

    def drain(self, name: str) -> list[Effect]:
        """Asks for a resident model to be unloaded as soon as its leases have ended. Later requests load it again."""
        model = self.models[name]
        if model.state not in (State.READY, State.BUSY):
            return []
        self._apply(model, Trigger.DRAIN)
        return [] if model.leases else [Unload(name)]

    def keep(self, name: str) -> list[Effect]:
        """Takes a `drain` back while leases keep the model; those who wait for it are served after all."""
        model = self.models[name]
        if model.state is not State.DRAINING or not model.leases:
            return []
        self._apply(model, Trigger.KEEP)
        self._apply(model, Trigger.LEASED)
        return self._grant_waiting(model)

    # What happened.

    def loaded(self, name: str, *, now: float) -> list[Effect]:
        model = self.models[name]
        self._apply(model, Trigger.LOADED)
        model.failures, model.reason, model.idle_since = 0, "", now
        return self._grant_waiting(model)

    def load_failed(self, name: str, error: DaemonError, *, now: float) -> list[Effect]:
        model = self.models[name]
        self._apply(model, Trigger.LOAD_FAILED)
        self._back_off(model, error.message, now)
        return self._refuse_waiting(model, error)

    def unloaded(self, name: str) -> list[Effect]:
        model = self.models[name]
        self._apply(model, Trigger.UNLOADED)
        self._forget_leases(model)
        return self._load_for_waiting(model)

    def died(self, name: str, reason: str, *, now: float) -> list[Effect]:
        """The model's worker has ended by itself. Leases are void: their runs have failed."""
        model = self.models[name]
        if model.state in (State.NOT_INSTALLED, State.UNLOADED, State.FAILED):
            return []
        self._forget_leases(model)
        if model.state is State.DRAINING:
            self._apply(model, Trigger.DIED)
            return self._load_for_waiting(model)
        model.crashes += 1
        if model.state is not State.LOADING and model.crashes <= CRASHES_ALLOWED:
            self._apply(model, Trigger.DIED)
            return []
        self._apply(model, Trigger.DIED if model.state is State.LOADING else Trigger.GAVE_UP)
        self._back_off(model, reason, now)
        return self._refuse_waiting(model, _failed(model, now))

    def set_installed(self, name: str, *, installed: bool) -> None:
        """The package came or went."""
        model = self.models[name]
        if installed and model.state is State.NOT_INSTALLED:
            self._apply(model, Trigger.INSTALLED)
        elif not installed and model.state in (State.UNLOADED, State.FAILED):
            self._apply(model, Trigger.REMOVED)

    # Steps shared by the above.

    def _grant(self, model: Model, ticket: Ticket) -> Grant:
        if ticket.leases:
            self._apply(model, Trigger.LEASED)
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
        if not model.waiting:
            return []
        self._apply(model, Trigger.LOAD)
        return [Load(model.name)]

    def _back_off(self, model: Model, reason: str, now: float) -> None:
        model.reason = reason
        model.retry_at = now + min(FIRST_BACKOFF_S * 2**model.failures, LONGEST_BACKOFF_S)
        model.failures += 1


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
