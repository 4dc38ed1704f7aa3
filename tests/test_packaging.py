"""What is built: a wheel with the four folders under one package, and an sdist that makes the same wheel."""

import importlib
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import audiocpp

ROOT = Path(__file__).parent.parent
FOLDERS = ("daemon", "engines", "control", "model_specs")


def build(root: Path, kind: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True, timeout=60)
    (built,) = folder.iterdir()
    return built


def wheel_names(wheel: Path) -> set[str]:
    """The files of the wheel without its metadata and without what it installs elsewhere."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if not name.partition("/")[0].endswith((".dist-info", ".data"))}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


def metadata(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (path for path in archive.namelist() if path.endswith(f".dist-info/{name}"))
        return archive.read(path)


@pytest.fixture(scope="module")
def about(wheel: Path) -> Message:
    return message_from_bytes(metadata(wheel, "METADATA"))


def test_wheel_holds_every_file_of_the_folders_and_nothing_else(wheel: Path) -> None:
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file())
    expected = {f"audiocpp/{path.relative_to(ROOT)}" for path in files if path.suffix != ".pyc"}
    assert wheel_names(wheel) == expected | {"audiocpp/__init__.py", "audiocpp/py.typed"}


def test_sdist_makes_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    (tmp_path / "wheel").mkdir()
    assert wheel_names(build(source, "wheel", tmp_path / "wheel")) == wheel_names(wheel)


def test_sdist_brings_what_is_needed_to_test_it(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert {"tests", "docs", "examples", "Makefile", "constraints.txt", "README.md", "LICENSE", "CHANGELOG.md"} <= tops


def test_commands_exist(wheel: Path) -> None:
    parser = ConfigParser()
    parser.read_string(metadata(wheel, "entry_points.txt").decode())
    scripts = dict(parser["console_scripts"])
    assert set(scripts) == {"audiocppd", "audiocppctl"}
    for target in scripts.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_metadata_says_version_licence_and_python(about: Message) -> None:
    assert (about["Name"], about["Version"]) == ("audiocppd", audiocpp.__version__)
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"


def requirements(about: Message) -> list[Requirement]:
    return [Requirement(row) for row in about.get_all("Requires-Dist", [])]


def test_no_runtime_and_no_copyleft_is_installed_unasked(about: Message) -> None:
    unasked = {row.name for row in requirements(about) if "extra" not in str(row.marker)}
    assert "trio" in unasked
    assert not unasked & {"onnxruntime", "espeakng-loader"}


def test_what_setup_installs_is_pinned(about: Message) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {canonicalize_name(Requirement(line).name) for line in lines if not line.startswith("#")}
    for extra in ("", "cpu", "tts"):
        here = [row for row in requirements(about) if not row.marker or row.marker.evaluate({"extra": extra})]
        assert {canonicalize_name(row.name) for row in here} <= pins
