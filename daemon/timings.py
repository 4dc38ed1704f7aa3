"""Where the time of a request goes: one record for each request, which the parts that it passes through add to."""

from contextvars import ContextVar

PHASES = ("queue", "load", "decode", "run", "encode")
"""In the order of a request: waiting for a slot, for the model's load, computing time of the decoder, the run of the
model, computing time of the encoder. Phases overlap: a model runs while the rest of its input is decoded."""


class Timings:
    """Milliseconds by phase, and the entry that the request used. A phase that did not happen is absent."""

    __slots__ = ("model", "phases_ms")

    def __init__(self) -> None:
        self.model = ""
        self.phases_ms: dict[str, float] = {}

    def add(self, phase: str, duration_ms: float) -> None:
        """Adds to a phase: a batch has several runs."""
        assert phase in PHASES
        self.phases_ms[phase] = self.phases_ms.get(phase, 0.0) + duration_ms

    def header(self, total_ms: float) -> str:
        """The value of `Server-Timing` (W3C), the phases so far and the whole time so far."""
        known = [(phase, self.phases_ms[phase]) for phase in PHASES if phase in self.phases_ms]
        return ", ".join(f"{phase};dur={duration_ms:.1f}" for phase, duration_ms in [*known, ("total", total_ms)])

    def log_fields(self) -> dict[str, str | float]:
        """For the access line."""
        fields: dict[str, str | float] = {"model": self.model} if self.model else {}
        return fields | {f"{phase}_ms": round(self.phases_ms[phase], 1) for phase in PHASES if phase in self.phases_ms}


current_timings: ContextVar[Timings] = ContextVar("timings")
"""The record of the request that the current task works for."""


def timings() -> Timings:
    """The record of the current request; outside of one a record that nobody reads."""
    return current_timings.get(None) or Timings()
