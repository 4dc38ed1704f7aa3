"""Where the daemon keeps its files: pure functions of the environment, nothing is created.

Under systemd the folders of the unit apply (`StateDirectory=` and so on), else the XDG base directories.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from platformdirs import PlatformDirs


class UserFolders(Protocol):
    """The user's folders of this application."""

    @property
    def user_data_path(self) -> Path: ...

    @property
    def user_cache_path(self) -> Path: ...

    @property
    def user_state_path(self) -> Path: ...


_SYSTEM_RUNTIME = Path("/run/audiocpp")
_USER: UserFolders = PlatformDirs("audiocpp", appauthor=False)


def models_root(environ: Mapping[str, str], *, flag: Path | None = None, user: UserFolders = _USER) -> Path:
    """`flag`, else AUDIOCPP_MODELS_ROOT, else `models` in the state folder of the unit or in the user's data."""
    if flag is not None:
        return flag.absolute()
    if chosen := environ.get("AUDIOCPP_MODELS_ROOT"):
        return Path(chosen).absolute()
    return (_unit_folder(environ, "STATE_DIRECTORY") or user.user_data_path) / "models"


def state_folder(environ: Mapping[str, str], *, user: UserFolders = _USER) -> Path:
    """For what must outlive a restart, such as measured memory."""
    return _unit_folder(environ, "STATE_DIRECTORY") or user.user_state_path


def cache_folder(environ: Mapping[str, str], *, user: UserFolders = _USER) -> Path:
    """For what can be made again: optimised graphs, uploads in progress."""
    return _unit_folder(environ, "CACHE_DIRECTORY") or user.user_cache_path


def runtime_folder(environ: Mapping[str, str]) -> Path:
    """For sockets: the unit's, else the user's, else the system's."""
    if unit := _unit_folder(environ, "RUNTIME_DIRECTORY"):
        return unit
    user = environ.get("XDG_RUNTIME_DIR")
    return Path(user) / "audiocpp" if user else _SYSTEM_RUNTIME


def admin_socket(environ: Mapping[str, str]) -> Path:
    """The default of the key `admin_socket`."""
    return runtime_folder(environ) / "admin.sock"


def _unit_folder(environ: Mapping[str, str], variable: str) -> Path | None:
    """systemd lists several folders separated by colons; the first is ours."""
    first = environ.get(variable, "").partition(":")[0]
    return Path(first) if first else None
