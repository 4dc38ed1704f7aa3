"""Why a pull fails."""

from audiocpp.daemon.errors import DaemonError


class PullError(DaemonError):
    """No source of a file could be used; the message lists what was tried."""

    status, type, code = 502, "server_error", "pull_failed"


class NoSpace(PullError):
    """The disk of the models root has less room than the pull needs."""

    status, type, code = 507, "server_error", "no_space"


class WrongContent(PullError):
    """A file is not the one that the spec describes: its size or sha256 differs."""

    status, type, code = 502, "server_error", "wrong_content"


class SourceFailed(Exception):
    """One source of a file could not be used; the next one is tried."""
