"""What the models hold, and whether one more fits: the room that the residency planner asks for.

One row a model: estimated before it loads, measured afterwards. Estimates begin with a rule and are replaced by what
was measured the last time (`estimates.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from audiocpp.daemon.estimates import Measurement
from audiocpp.daemon.eviction import ByteLimit, Decision, Resident, Wait, decide
from audiocpp.daemon.lifecycle import Model, State
from audiocpp.daemon.pressure import SHED_PERCENT

MIB = 1 << 20

WORKSPACE_MARGIN = 1.25
"""Runs differ in length and meet each other, and peaks between two looks are not seen: the next may be larger."""


@dataclass(slots=True)
class Row:
    """Bytes of one model.

    Attributes:
        estimate_bytes: what it will hold once loaded, before it has been measured.
        workspace_bytes: what its runs were seen to need beyond that, now or the last time.
        loaded_bytes: measured right after the load; `resident_bytes` at present, `peak_bytes` at the most.
    """

    estimate_bytes: int
    workspace_bytes: int = 0
    loaded_bytes: int | None = None
    resident_bytes: int | None = None
    peak_bytes: int | None = None

    @property
    def need_bytes(self) -> int:
        """What the model may hold at any time while it is in memory: a run may begin at any time."""
        loaded = self.estimate_bytes if self.loaded_bytes is None else self.loaded_bytes
        return max(loaded + int(self.workspace_bytes * WORKSPACE_MARGIN), self.resident_bytes or 0)


class MemoryLimits(msgspec.Struct, frozen=True):
    """The configured limits; 0 means none.

    Attributes:
        max_models: most models in memory.
        max_resident_bytes: most bytes of all models together.
        min_free_bytes: what a load must leave free on the host and in every control group.
    """

    max_models: int = 0
    max_resident_bytes: int = 0
    min_free_bytes: int = 0


class Ledger:
    """Implements `residency.Room`.

    Args:
        limits: from the configuration.
        probe: the memory that each outer limit (host, control groups, devices) still gives, read now.
        estimate: bytes that a model will hold once loaded, and that its runs will need beyond that.
        learn: told what a model was measured to hold after its load, and again when it leaves.
        pressure: how much of the time something waited for memory, in percent; above `SHED_PERCENT` nothing is loaded.
    """

    def __init__(
        self,
        limits: MemoryLimits,
        *,
        probe: Callable[[], Sequence[ByteLimit]],
        estimate: Callable[[str], Measurement],
        learn: Callable[[str, Measurement], None],
        pressure: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._limits = limits
        self._probe = probe
        self._estimate = estimate
        self._learn = learn
        self._pressure = pressure
        self._rows: dict[str, Row] = {}

    def row(self, name: str) -> Row:
        """The model's row, with a fresh estimate while it is not in memory."""
        row = self._rows.get(name)
        if row is None:
            estimate = self._estimate(name)
            row = self._rows[name] = Row(estimate.loaded_bytes, estimate.workspace_bytes)
        return row

    def measured(self, name: str, resident_bytes: int) -> None:
        """Records what the model's worker was measured to hold."""
        row = self.row(name)
        row.resident_bytes = resident_bytes
        row.peak_bytes = max(row.peak_bytes or 0, resident_bytes)
        if row.loaded_bytes is None:
            row.loaded_bytes = resident_bytes
        row.workspace_bytes = max(row.workspace_bytes, row.peak_bytes - row.loaded_bytes)
        # At once, not only when the model leaves: a daemon that is stopped or killed must not forget its peaks.
        self._remember(name, row)

    def forget(self, name: str) -> None:
        """The model has left memory; the next load begins with a new estimate."""
        row = self._rows.pop(name, None)
        if row is not None:
            self._remember(name, row)

    def _remember(self, name: str, row: Row) -> None:
        if row.loaded_bytes is not None:
            self._learn(name, Measurement(loaded_bytes=row.loaded_bytes, workspace_bytes=row.workspace_bytes))

    def decide(self, model: Model, others: Sequence[Model]) -> Decision:
        """See `residency.Room`."""
        if model.state not in (State.LOADING, State.READY, State.BUSY, State.DRAINING):
            self.forget(model.name)
        needed = self.row(model.name).need_bytes
        if self.under_pressure():
            return Wait("memory pressure on the machine", needed, 0)
        places = self._limits.max_models - len(others) if self._limits.max_models else None
        return decide(needed, [self._resident(other) for other in others], self.byte_limits(others), places)

    def under_pressure(self) -> bool:
        """Whether the machine is so short of memory that models should leave and none should come."""
        return self._pressure() >= SHED_PERCENT

    def byte_limits(self, others: Sequence[Model]) -> list[ByteLimit]:
        """Every limit on bytes that a load beside `others` is held against."""
        reserved = sum(self._reserved(other) for other in others)
        limits = [
            ByteLimit(limit.name, limit.free_bytes - reserved - self._limits.min_free_bytes) for limit in self._probe()
        ]
        if self._limits.max_resident_bytes:
            held = sum(self._held(other) for other in others)
            limits.append(ByteLimit("max_resident_memory_mb", self._limits.max_resident_bytes - held))
        return limits

    def _held(self, model: Model) -> int:
        return self.row(model.name).need_bytes

    def _reserved(self, model: Model) -> int:
        """What the model may still take beyond what the kernel's figures already show."""
        row = self.row(model.name)
        return max(row.need_bytes - (row.resident_bytes or 0), 0)

    def _resident(self, model: Model) -> Resident:
        return Resident(
            name=model.name,
            label=model.label,
            held_bytes=self._held(model),
            idle_since=model.idle_since if model.state is State.READY else None,
            pinned=model.pinned,
            leaving=model.state is State.DRAINING,
        )
