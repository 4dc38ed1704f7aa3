"""The states of a model that can be resident, as a table, and the record that carries them."""

from dataclasses import dataclass, field
from enum import StrEnum

from audiocpp.daemon.eviction import Wait


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


class Leaving(StrEnum):
    """Why a model is unloaded."""

    IDLE = "idle"
    ROOM = "room"
    PRESSURE = "pressure"
    ASKED = "asked"


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


class Unexpected(Exception):
    """A trigger that the state does not allow: a programming error."""


@dataclass(slots=True, eq=False)
class Ticket:
    """Somebody who wants a model. Settled once, by `Grant` or `Refuse`; a lease is then given back by `release`.

    `life` counts the model's loads: a lease of an earlier life ended when its worker died.
    """

    model: str
    leases: bool = True
    life: int = 0


@dataclass(slots=True)
class Model:
    """A model that can be resident.

    Attributes:
        name: the load key; `label` is what messages call it.
        pinned: never unloaded by the planner itself.
        keep_alive_s: how long it stays after its last release; None: until it is asked to go.
        limit_bytes: the most it may hold; 0: no limit of its own.
        blocked: why it waits for room, while it does.
        leaving: why it is being unloaded, or was the last time.
        retired: no entry uses it any more; it is not kept, and forgotten when it is gone.
    """

    name: str
    label: str
    pull_command: str
    pinned: bool = False
    keep_alive_s: float | None = None
    limit_bytes: int = 0
    state: State = State.UNLOADED
    leases: int = 0
    life: int = 0
    waiting: list[Ticket] = field(default_factory=list)
    idle_since: float = 0.0
    crashes: int = 0
    failures: int = 0
    reason: str = ""
    retry_at: float = 0.0
    blocked: Wait | None = None
    leaving: Leaving = Leaving.ASKED
    retired: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether it is out of memory and nobody waits for it."""
        return self.state in (State.NOT_INSTALLED, State.UNLOADED, State.FAILED) and not self.waiting

    def apply(self, trigger: Trigger) -> None:
        """Moves to the next state. Raises `Unexpected` when the table has none."""
        try:
            self.state = TRANSITIONS[self.state, trigger]
        except KeyError:
            raise Unexpected(f"{self.label}: {trigger} while {self.state}") from None
