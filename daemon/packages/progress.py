"""What a pull tells while it runs, and what it tells at its end."""

from collections.abc import Callable
from typing import Literal

import msgspec

Phase = Literal["resolving", "downloading", "verifying", "installing", "complete"]


class PullProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a pull. `package` may be a companion of the package that was asked for.

    The first message of each package has phase `resolving`, the licence, and in `total_bytes` the size of the
    package's files. While `downloading`, the bytes are those of the archive that holds the files; while
    `verifying`, those of the file that is unpacked and checked.
    """

    package: str
    phase: Phase
    message: str = ""
    file: str = ""
    done_bytes: int = 0
    total_bytes: int = 0
    license: str = ""
    attribution: str = ""
    license_note: str = ""


class PullResult(msgspec.Struct, frozen=True, kw_only=True):
    """`pulled` names what was installed now, companions included; empty when all was there already."""

    package: str
    directory: str
    size_bytes: int
    pulled: tuple[str, ...] = ()


Listener = Callable[[PullProgress], None]
"""Called in the task that pulls. Must neither block nor raise."""
