"""Model packages on disk: what is installed below the models root, and how packages get there.

Nothing here knows of models in memory, of routes or of the admin socket.
"""

from audiocpp.daemon.packages.errors import NoSpace, PullError, WrongContent
from audiocpp.daemon.packages.manifest import FileFault
from audiocpp.daemon.packages.progress import PullProgress, PullResult
from audiocpp.daemon.packages.store import PackageStatus, PackageStore

__all__ = [
    "FileFault",
    "NoSpace",
    "PackageStatus",
    "PackageStore",
    "PullError",
    "PullProgress",
    "PullResult",
    "WrongContent",
]
