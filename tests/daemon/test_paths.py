"""Which folder is taken, by environment."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from audiocpp.daemon.paths import admin_socket, cache_folder, models_root, runtime_folder, state_folder


@dataclass(frozen=True)
class User:
    user_data_path: Path = Path("/home/u/data/audiocpp")
    user_cache_path: Path = Path("/home/u/cache/audiocpp")
    user_state_path: Path = Path("/home/u/state/audiocpp")


UNIT = {
    "STATE_DIRECTORY": "/var/lib/audiocpp:/var/lib/other",
    "CACHE_DIRECTORY": "/var/cache/audiocpp",
    "RUNTIME_DIRECTORY": "/run/unit",
    "XDG_RUNTIME_DIR": "/run/user/7",
}


@pytest.mark.parametrize(
    ("environ", "flag", "expected"),
    [
        ({**UNIT, "AUDIOCPP_MODELS_ROOT": "/models"}, Path("/flag"), "/flag"),
        ({**UNIT, "AUDIOCPP_MODELS_ROOT": "/models"}, None, "/models"),
        ({**UNIT, "AUDIOCPP_MODELS_ROOT": ""}, None, "/var/lib/audiocpp/models"),
        ({}, None, "/home/u/data/audiocpp/models"),
    ],
    ids=["flag", "variable", "unit", "user"],
)
def test_models_root_takes_flag_variable_unit_user_in_this_order(
    environ: dict[str, str], flag: Path | None, expected: str
) -> None:
    assert models_root(environ, flag=flag, user=User()) == Path(expected)


def test_a_relative_models_root_is_made_absolute() -> None:
    assert models_root({}, flag=Path("models")) == Path.cwd() / "models"


def test_state_and_cache_are_the_units_or_the_users() -> None:
    assert state_folder(UNIT, user=User()) == Path("/var/lib/audiocpp")
    assert cache_folder(UNIT, user=User()) == Path("/var/cache/audiocpp")
    assert state_folder({}, user=User()) == User().user_state_path
    assert cache_folder({}, user=User()) == User().user_cache_path


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (UNIT, "/run/unit"),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/audiocpp"),
        ({}, "/run/audiocpp"),
    ],
    ids=["unit", "user", "system"],
)
def test_sockets_are_in_the_runtime_folder(environ: dict[str, str], expected: str) -> None:
    assert runtime_folder(environ) == Path(expected)
    assert admin_socket(environ) == Path(expected) / "admin.sock"
