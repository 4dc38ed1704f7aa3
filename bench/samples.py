"""Samples of a measurement, and how two of them are taken side by side."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

A = TypeVar("A")
Pairs: TypeAlias = tuple[list[A], list[A]]
"""Ours and theirs, in the order of time."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One execution: wall-clock and processor seconds, and the seconds to its first piece of output."""

    wall_s: float
    cpu_s: float
    first_s: float = math.nan


def alternate(times: int, ours: Callable[[], A], theirs: Callable[[], A]) -> Pairs[A]:
    """Takes both samples `times` times in turn (ABBA), so that what else the machine does falls on both alike."""
    a: list[A] = []
    b: list[A] = []
    for turn in range(times):
        if turn % 2 == 0:
            a.append(ours())
            b.append(theirs())
        else:
            b.append(theirs())
            a.append(ours())
    return a, b


median = statistics.median


def median_difference(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of how much more ours is, pair by pair: neighbours in time met the same machine."""
    return median([a - b for a, b in zip(ours, theirs, strict=True)])


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of how many times theirs ours is, pair by pair."""
    return median([a / b for a, b in zip(ours, theirs, strict=True)])


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of `values` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
