"""What a model will hold: a rule until it has been measured once, then the measurement, kept over restarts."""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

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


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    loaded_bytes: dict[str, int]


class Estimates:
    """Bytes measured after a load, by model, in one small JSON file.

    The key says all that makes a model a different one: files, placement, options.

    A file that cannot be read or written is said once and done without: estimates then follow the rule.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complained = False
        self._loaded_bytes = self._read()

    def learned(self, key: str) -> int | None:
        """What was measured for this key the last time; None if never."""
        return self._loaded_bytes.get(key)

    def learn(self, key: str, loaded_bytes: int) -> None:
        """Remembers a measurement, on disk too. Nearly the same as before is not worth wearing a flash card for."""
        before = self._loaded_bytes.get(key)
        if before is not None and abs(loaded_bytes - before) < before * WORTH_WRITING:
            return
        self._loaded_bytes[key] = loaded_bytes
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(_File(version=FORMAT_VERSION, loaded_bytes=self._loaded_bytes)))
            fresh.replace(self._path)
        except OSError as error:
            self._complain(f"cannot be written: {error}")

    def _read(self) -> dict[str, int]:
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            self._complain(f"cannot be read: {error}")
            return {}
        return dict(file.loaded_bytes) if file.version == FORMAT_VERSION else {}

    def _complain(self, what: str) -> None:
        if not self._complained:
            self._complained = True
            log.warning("measured memory is not kept: %s %s", self._path, what)
