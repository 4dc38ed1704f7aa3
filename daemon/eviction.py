"""Whether a model fits into memory, and which idle models must go so that it does. Pure: no state, no clock, no log."""

from collections.abc import Sequence

import msgspec


class ByteLimit(msgspec.Struct, frozen=True):
    """A limit on memory. `free_bytes` is what it still allows, reservations of loads in progress taken off."""

    name: str
    free_bytes: int


class Resident(msgspec.Struct, frozen=True):
    """A model in memory, or on its way out of it (`leaving`). `idle_since` is None while it is in use."""

    name: str
    label: str
    held_bytes: int
    idle_since: float | None
    pinned: bool = False
    leaving: bool = False

    @property
    def evictable(self) -> bool:
        return self.idle_since is not None and not self.pinned and not self.leaving


class Fits(msgspec.Struct, frozen=True):
    """There is room now."""


class Evict(msgspec.Struct, frozen=True):
    """There is room once these have been unloaded; least recently used first."""

    victims: tuple[str, ...]


class Wait(msgspec.Struct, frozen=True):
    """There is room once models that are in use, or leaving, are gone. `limit` names what binds."""

    limit: str
    needed_bytes: int
    available_bytes: int


class Never(msgspec.Struct, frozen=True):
    """Not even an empty server has room. `holders` are what cannot go."""

    limit: str
    needed_bytes: int
    available_bytes: int
    holders: tuple[str, ...]


Decision = Fits | Evict | Wait | Never


def decide(
    needed_bytes: int, residents: Sequence[Resident], limits: Sequence[ByteLimit], free_places: int | None
) -> Decision:
    """Decides about one model that wants `needed_bytes`.

    Args:
        residents: all other models in memory.
        limits: every limit on bytes that applies.
        free_places: how many more models may be resident; None without a limit on their number.
    """
    if _has_room(needed_bytes, (), limits, free_places):
        return Fits()
    movable = [resident for resident in residents if not resident.pinned]
    if not _has_room(needed_bytes, movable, limits, free_places):
        return _never(needed_bytes, residents, movable, limits, free_places)
    leaving = [resident for resident in residents if resident.leaving]
    if _has_room(needed_bytes, leaving, limits, free_places):
        return _wait(needed_bytes, limits, free_places)
    idle = sorted((resident for resident in residents if resident.evictable), key=_last_used)
    victims = _smallest_prefix(needed_bytes, leaving, idle, limits, free_places)
    if victims is None:
        return _wait(needed_bytes, limits, free_places)
    return Evict(tuple(victim.name for victim in victims))


def _last_used(resident: Resident) -> float:
    assert resident.idle_since is not None
    return resident.idle_since


def _smallest_prefix(
    needed_bytes: int,
    leaving: Sequence[Resident],
    idle: Sequence[Resident],
    limits: Sequence[ByteLimit],
    free_places: int | None,
) -> list[Resident] | None:
    """The least recently used that make room together, without those that turn out not to be needed for it."""
    for count in range(1, len(idle) + 1):
        victims = list(idle[:count])
        if not _has_room(needed_bytes, [*leaving, *victims], limits, free_places):
            continue
        for victim in idle[:count]:
            others = [other for other in victims if other is not victim]
            if _has_room(needed_bytes, [*leaving, *others], limits, free_places):
                victims = others
        return victims
    return None


def _has_room(
    needed_bytes: int, gone: Sequence[Resident], limits: Sequence[ByteLimit], free_places: int | None
) -> bool:
    freed = sum(resident.held_bytes for resident in gone)
    enough_places = free_places is None or free_places + len(gone) >= 1
    return enough_places and all(limit.free_bytes + freed >= needed_bytes for limit in limits)


def _binding(needed_bytes: int, limits: Sequence[ByteLimit], free_places: int | None) -> ByteLimit:
    tightest = min(limits, key=lambda limit: limit.free_bytes, default=None)
    if tightest is None or (tightest.free_bytes >= needed_bytes and free_places is not None and free_places < 1):
        return ByteLimit("max_loaded_models", 0)
    return tightest


def _wait(needed_bytes: int, limits: Sequence[ByteLimit], free_places: int | None) -> Wait:
    limit = _binding(needed_bytes, limits, free_places)
    return Wait(limit.name, needed_bytes, max(limit.free_bytes, 0))


def _never(
    needed_bytes: int,
    residents: Sequence[Resident],
    movable: Sequence[Resident],
    limits: Sequence[ByteLimit],
    free_places: int | None,
) -> Never:
    freed = sum(resident.held_bytes for resident in movable)
    limit = _binding(needed_bytes, [ByteLimit(each.name, each.free_bytes + freed) for each in limits], free_places)
    holders = tuple(resident.label for resident in residents if resident.pinned)
    return Never(limit.name, needed_bytes, max(limit.free_bytes, 0), holders)
