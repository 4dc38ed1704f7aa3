"""Something that the daemon does without, said in the log when it is found out and not at every request."""

import logging
import time
from collections.abc import Callable
from typing import Final

REMINDER_S: Final = 3600.0


class Complaint:
    """One thing that may fail. `say` logs a warning, unless one was logged within the last hour."""

    def __init__(self, log: logging.Logger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._silent_until = float("-inf")

    def say(self, message: str, *values: object) -> None:
        now = self._clock()
        if now >= self._silent_until:
            self._silent_until = now + REMINDER_S
            self._log.warning(message, *values)
