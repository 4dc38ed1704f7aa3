"""What a model will hold: a rule until it has been measured once, then the measurement, kept over restarts."""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec

from audiocpp.daemon.complaint import Complaint
from audiocpp.engines.whole_files import remove_left_over, replacing

log = logging.getLogger(__name__)

_NOT_KEPT = "measured memory is not kept: %s %s"

FORMAT_VERSION = 1
WEIGHTS_FACTOR = 1.5
FIXED_BYTES = 128 << 20
"""The reference's rule: weights times 1.5, and 128 MiB for the runtime and the workspace."""

WORTH_WRITING = 0.02
"""A measurement is written when it differs from the last by this part of it."""


def estimate_by_rule(files: Iterable[Path]) -> int:
    """Bytes that a model with these files may hold; files that are missing count nothing."""
    weights = sum(path.stat().st_size for path in files if path.is_file())
    return int(weights * WEIGHTS_FACTOR) + FIXED_BYTES


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was measured to hold: after its load, and at the most while it ran, beyond that."""

    loaded_bytes: int
    workspace_bytes: int = 0

    def is_like(self, other: "Measurement") -> bool:
        """Nearly the same: not worth wearing a flash card for."""
        whole, difference = self.loaded_bytes, abs(self.loaded_bytes - other.loaded_bytes)
        return difference + abs(self.workspace_bytes - other.workspace_bytes) < whole * WORTH_WRITING


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    models: dict[str, Measurement]


class Estimates:
    """Measurements by model, in one small JSON file.

    The key says all that makes a model a different one: files, placement, options.

    A file that cannot be read or written is said once and done without: estimates then follow the rule.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complaint = Complaint(log)
        remove_left_over(path.parent)
        self._models = self._read()

    def learned(self, key: str) -> Measurement | None:
        """What was measured for this key the last time; None if never."""
        return self._models.get(key)

    def learn(self, key: str, measurement: Measurement) -> None:
        """Remembers a measurement, on disk too when it differs from the last."""
        before = self._models.get(key)
        if before is not None and before.is_like(measurement):
            return
        self._models[key] = measurement
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Not forced to the disk, which would hold up the event loop: what a power cut takes is measured anew.
            with replacing(self._path, durable=False) as fresh:
                fresh.write_bytes(msgspec.json.encode(_File(version=FORMAT_VERSION, models=self._models)))
        except OSError as error:
            self._complaint.say(_NOT_KEPT, self._path, f"cannot be written: {error.strerror}")

    def _read(self) -> dict[str, Measurement]:
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            self._complaint.say(_NOT_KEPT, self._path, f"cannot be read: {error}")
            return {}
        return dict(file.models) if file.version == FORMAT_VERSION else {}
