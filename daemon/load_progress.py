"""Log lines on the way of a load, under the reference's key. Off unless asked for."""

import logging

KEY = "server.load.progress"

log = logging.getLogger(__name__)
log.disabled = True


def report_load_progress(*, on: bool) -> None:
    """Switches the lines on or off, for the whole process."""
    log.disabled = not on


def load_progress(model: str, done: float) -> None:
    """A load has come to `done`, from 0 to 1. Loads are one step here: the reference's clients see its ends."""
    log.info("%s: %s %.2f", KEY, model, done, extra={"event": KEY, "model": model, "progress": done})
