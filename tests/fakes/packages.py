"""Small packages with known contents, as catalogs, files and wheels."""

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from audiocpp.engines.spec import (
    Companion,
    FileSource,
    License,
    ModelSpec,
    NpmSource,
    PackageFile,
    PackageSpec,
    PartsSource,
    PypiSource,
    Source,
)

CONTENTS = {"weights.onnx": b"weights " * 1000, "tokens.txt": b"a b c"}


def package_file(name: str, content: bytes, *sources: Source) -> PackageFile:
    return PackageFile(
        name=name,
        role=name.partition(".")[0],
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        sources=sources,
    )


def model_spec(family: str, *files: PackageFile, companions: Mapping[str, Companion] | None = None) -> ModelSpec:
    """A family with one package, whose id and folder are the family's name."""
    package = PackageSpec(
        id=family,
        display_name=family.title(),
        default=True,
        format="onnx",
        precision="fp32",
        license=License(spdx="MIT", attribution="Copyright the authors"),
        target_directory=family,
        files=files,
    )
    return ModelSpec(
        schema_version=1,
        family=family,
        display_name=family.title(),
        category="asr",
        status="experimental",
        tasks=("asr",),
        modes=("offline",),
        runtime=("onnxruntime",),
        companions=dict(companions or {}),
        packages=(package,),
    )


def file_spec(family: str, folder: Path, contents: Mapping[str, bytes] = CONTENTS) -> ModelSpec:
    """A family whose files lie as they are in `folder`, where they are written."""
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return model_spec(
        family,
        *(package_file(name, content, FileSource(path=str(folder / name))) for name, content in contents.items()),
    )


def wheel_spec(family: str, wheel: Path, contents: Mapping[str, bytes] = CONTENTS) -> ModelSpec:
    """A family whose files are members of a wheel that `write_wheel` wrote."""
    package, version, *_ = wheel.name.split("-")

    def source(name: str) -> PypiSource:
        return PypiSource(
            package=package, version=version, member=f"{package}/{name}", archive_bytes=wheel.stat().st_size
        )

    return model_spec(family, *(package_file(name, content, source(name)) for name, content in contents.items()))


def parts_spec(family: str, wheels: Sequence[Path], contents: Sequence[bytes]) -> ModelSpec:
    """A family with one file, whose pieces are the members `part.bin` of `wheels`."""
    parts = []
    for wheel in wheels:
        package, version, *_ = wheel.name.split("-")
        size = wheel.stat().st_size
        parts.append(PypiSource(package=package, version=version, member=f"{package}/part.bin", archive_bytes=size))
    return model_spec(family, package_file("whole.onnx", b"".join(contents), PartsSource(parts=tuple(parts))))


def npm_spec(family: str, package: str, contents: Mapping[str, bytes] = CONTENTS) -> ModelSpec:
    """A family whose files are members of version 1.0.0 of an npm package."""

    def source(name: str) -> NpmSource:
        return NpmSource(package=package, version="1.0.0", member=f"package/{name}", archive_bytes=1000)

    return model_spec(family, *(package_file(name, content, source(name)) for name, content in contents.items()))


def npm_tarball(package: str, contents: Mapping[str, bytes] = CONTENTS) -> bytes:
    """What a registry serves as version 1.0.0 of `package`."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        members = {"package.json": f'{{"name": "{package}", "version": "1.0.0"}}'.encode(), **contents}
        for name, content in members.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def write_wheel(folder: Path, package: str = "tiny_model", contents: Mapping[str, bytes] = CONTENTS) -> Path:
    """A wheel of version 1.0 that pip accepts, with a module beside the files of `contents`."""
    info = f"{package}-1.0.dist-info"
    members = {f"{package}/{name}": content for name, content in contents.items()}
    members[f"{package}/__init__.py"] = b""
    members[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode()
    members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in members.items():
            wheel.writestr(name, content)
    return path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
