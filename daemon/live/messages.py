"""What a live session hears and what it wants done. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audiocpp.daemon.errors import DaemonError
from audiocpp.engines.tasks import TaskEvent

# Inputs.


@dataclass(frozen=True, slots=True)
class Audio:
    """PCM from the client, split anywhere."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Control:
    """A text message from the client."""

    text: str


@dataclass(frozen=True, slots=True)
class Heard:
    """An event of the run."""

    event: TaskEvent


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run has answered everything."""


@dataclass(frozen=True, slots=True)
class RunBroke:
    """The run failed."""

    error: DaemonError


@dataclass(frozen=True, slots=True)
class Tick:
    """`LiveSession.deadline_s` may have passed."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The daemon is stopping."""


Input = Audio | Control | Heard | RunEnded | RunBroke | Tick | Stop
INPUTS: tuple[type[Input], ...] = (Audio, Control, Heard, RunEnded, RunBroke, Tick, Stop)


# Effects.


@dataclass(frozen=True, slots=True)
class Push:
    """Give this to the run."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Finalize:
    """Ask the run for all that was pushed so far."""

    id: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Tell the run that its input is complete."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send this event to the client."""

    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Close:
    """Close the transport, after everything sent so far. `code` is a WebSocket close code."""

    code: int
    reason: str


Effect = Push | Finalize | Finish | Send | Close
