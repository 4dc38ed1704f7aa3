"""What a live session hears and what it wants done. Values only."""

from collections.abc import Mapping
from typing import Any

import msgspec

from audiocpp.daemon.errors import DaemonError
from audiocpp.engines.tasks import TaskEvent

# Inputs.


class Audio(msgspec.Struct, frozen=True):
    """PCM from the client, split anywhere."""

    data: bytes


class Control(msgspec.Struct, frozen=True):
    """A text message from the client."""

    text: str


class Heard(msgspec.Struct, frozen=True):
    """An event of the run."""

    event: TaskEvent


class RunEnded(msgspec.Struct, frozen=True):
    """The run has answered everything."""


class RunBroke(msgspec.Struct, frozen=True):
    """The run failed."""

    error: DaemonError


class Tick(msgspec.Struct, frozen=True):
    """`LiveSession.deadline_s` may have passed."""


class Stop(msgspec.Struct, frozen=True):
    """The daemon is stopping."""


Input = Audio | Control | Heard | RunEnded | RunBroke | Tick | Stop
INPUTS: tuple[type[Input], ...] = (Audio, Control, Heard, RunEnded, RunBroke, Tick, Stop)


# Effects.


class Push(msgspec.Struct, frozen=True):
    """Give this to the run."""

    data: bytes


class Finalize(msgspec.Struct, frozen=True):
    """Ask the run for all that was pushed so far."""

    id: str


class Finish(msgspec.Struct, frozen=True):
    """Tell the run that its input is complete."""


class Send(msgspec.Struct, frozen=True):
    """Send this event to the client."""

    event: Mapping[str, Any]


class Close(msgspec.Struct, frozen=True):
    """Close the transport, after everything sent so far. `code` is a WebSocket close code."""

    code: int
    reason: str


Effect = Push | Finalize | Finish | Send | Close
