"""What a live session hears and what it wants done. Values only."""

from collections.abc import Mapping
from typing import Any

import msgspec

from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.registry import ModelEntry
from audiocpp.engines.tasks import TaskEvent, TaskRequest

# Inputs.


class Audio(msgspec.Struct, frozen=True):
    """PCM from the client, split anywhere.

    Attributes:
        ends: it is the last of a frame or a chunk.
        framing_bytes: what came with it and is no audio, where that counts.
    """

    data: bytes
    ends: bool = True
    framing_bytes: int = 0


class Control(msgspec.Struct, frozen=True):
    """A text message from the client."""

    text: str


class Ended(msgspec.Struct, frozen=True):
    """The client has sent all of its audio, and the transport says so."""


class Broken(msgspec.Struct, frozen=True):
    """What the client sends cannot be understood any more."""

    message: str


class Lost(msgspec.Struct, frozen=True):
    """The connection broke. The client may come back."""


class Heard(msgspec.Struct, frozen=True):
    """An event of the run."""

    event: TaskEvent


class Restarted(msgspec.Struct, frozen=True):
    """The run that `Restart` asked for is open. What is heard from now on is its."""


class RunEnded(msgspec.Struct, frozen=True):
    """The run has answered everything."""


class RunBroke(msgspec.Struct, frozen=True):
    """The run failed."""

    error: DaemonError


class Tick(msgspec.Struct, frozen=True):
    """`deadline_s` of the session may have passed."""


class Stop(msgspec.Struct, frozen=True):
    """The daemon is stopping."""


Input = Audio | Control | Ended | Broken | Lost | Heard | Restarted | RunEnded | RunBroke | Tick | Stop
INPUTS: tuple[type[Input], ...] = (
    Audio,
    Control,
    Ended,
    Broken,
    Lost,
    Heard,
    Restarted,
    RunEnded,
    RunBroke,
    Tick,
    Stop,
)


# Effects.


class Push(msgspec.Struct, frozen=True):
    """Give this to the run."""

    data: bytes


class Finalize(msgspec.Struct, frozen=True):
    """Ask the run for all that was pushed so far."""

    id: str


class Finish(msgspec.Struct, frozen=True):
    """Tell the run that its input is complete."""


class Restart(msgspec.Struct, frozen=True):
    """End the run once the session has `settled`, and go on with another one of the same model."""

    request: TaskRequest


class Move(msgspec.Struct, frozen=True):
    """End the run once the session has `settled`, and go on with one of another entry."""

    entry: ModelEntry
    request: TaskRequest


class Send(msgspec.Struct, frozen=True):
    """Send this event to the client."""

    event: Mapping[str, Any]


class Close(msgspec.Struct, frozen=True):
    """Close the transport, after everything sent so far. `code` is a WebSocket close code."""

    code: int
    reason: str = ""


Effect = Push | Finalize | Finish | Restart | Move | Send | Close
