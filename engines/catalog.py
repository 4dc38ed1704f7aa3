"""All specs that are known: the bundled ones, and an operator's own that replace or extend them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Self

import msgspec

from audiocpp.engines.errors import SpecError
from audiocpp.engines.spec import (
    FileSource,
    ModelSpec,
    PackageFile,
    PackageSpec,
    PartsSource,
    SingleSource,
    Source,
)
from audiocpp.engines.spec_rules import parse_spec

_SCHEMA = "schema.json"


@dataclass(frozen=True, slots=True)
class Catalog:
    """Families by name. Package ids are unique and every companion exists."""

    families: Mapping[str, ModelSpec]
    _packages: Mapping[str, tuple[ModelSpec, PackageSpec]]

    @classmethod
    def load(cls, *overrides: Path | None) -> Self:
        """The bundled specs, then those of `overrides`: each a spec file or a folder of them; None is skipped.

        A family in a later place replaces the one of the same name. Raises `SpecError`.
        """
        families = {spec.family: spec for spec in map(_read, _spec_files(files("audiocpp").joinpath("model_specs")))}
        for override in overrides:
            if override is not None:
                families |= {spec.family: spec for spec in _read_override(override)}
        return cls.of(families.values())

    @classmethod
    def of(cls, specs: Iterable[ModelSpec]) -> Self:
        """A catalog of exactly these specs, checked against each other. Raises `SpecError`."""
        families = {spec.family: spec for spec in specs}
        packages = _packages_by_id(families.values())
        for spec in families.values():
            _check_companions(spec, packages)
        return cls(MappingProxyType(families), MappingProxyType(packages))

    def family(self, name: str) -> ModelSpec:
        """Raises `SpecError` that lists the known families."""
        if name not in self.families:
            raise SpecError(f"family {name!r} is not known; known: {', '.join(sorted(self.families))}", param="family")
        return self.families[name]

    def package(self, package_id: str) -> tuple[ModelSpec, PackageSpec]:
        """Raises `SpecError` that lists the known packages."""
        if package_id not in self._packages:
            known = ", ".join(sorted(self._packages))
            raise SpecError(f"package {package_id!r} is not known; known: {known}", param="package")
        return self._packages[package_id]

    def packages(self) -> Iterator[tuple[ModelSpec, PackageSpec]]:
        """All packages, ordered by family and then as the spec lists them."""
        return iter(self._packages.values())

    def companions(self, spec: ModelSpec) -> tuple[PackageSpec, ...]:
        """The packages whose files `spec` loads beside its own, each once."""
        ids = dict.fromkeys(companion.package for companion in spec.companions.values())
        return tuple(self.package(package_id)[1] for package_id in ids)


def _spec_files(folder: Traversable) -> list[Traversable]:
    entries = (entry for entry in folder.iterdir() if entry.name.endswith(".json") and entry.name != _SCHEMA)
    return sorted(entries, key=lambda entry: entry.name)


def _read(file: Traversable) -> ModelSpec:
    spec = parse_spec(file.read_bytes(), origin=file.name)
    if spec.family != file.name.removesuffix(".json"):
        raise SpecError(f"{file.name}: $.family: {spec.family!r} must equal the file's name without .json")
    return spec


def _read_override(path: Path) -> Iterator[ModelSpec]:
    try:
        sources = _spec_files(path) if path.is_dir() else [path]
        for file in sources:
            yield _anchored(_read(file), path if path.is_dir() else path.parent)
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}", param="model_spec_override") from error


def _anchored(spec: ModelSpec, folder: Path) -> ModelSpec:
    """`spec` with the relative paths of its file sources made absolute below `folder`."""

    def single(value: SingleSource) -> SingleSource:
        if not isinstance(value, FileSource):
            return value
        return msgspec.structs.replace(value, path=str(folder.absolute() / value.path))

    def source(value: Source) -> Source:
        if isinstance(value, PartsSource):
            return msgspec.structs.replace(value, parts=tuple(map(single, value.parts)))
        return single(value)

    def file(value: PackageFile) -> PackageFile:
        return msgspec.structs.replace(value, sources=tuple(map(source, value.sources)))

    def package(value: PackageSpec) -> PackageSpec:
        return msgspec.structs.replace(value, files=tuple(map(file, value.files)))

    return msgspec.structs.replace(spec, packages=tuple(map(package, spec.packages)))


def _packages_by_id(specs: Iterable[ModelSpec]) -> dict[str, tuple[ModelSpec, PackageSpec]]:
    packages: dict[str, tuple[ModelSpec, PackageSpec]] = {}
    folders: dict[str, str] = {}
    for spec in sorted(specs, key=lambda spec: spec.family):
        for package in spec.packages:
            if package.id in packages:
                other = packages[package.id][0].family
                raise SpecError(f"{spec.family}.json: $.packages: id {package.id!r} is also one of {other}")
            if package.target_directory in folders:
                other = folders[package.target_directory]
                raise SpecError(f"{spec.family}.json: {package.id}: target_directory is also that of {other}")
            packages[package.id] = spec, package
            folders[package.target_directory] = package.id
    return packages


def _check_companions(spec: ModelSpec, packages: Mapping[str, tuple[ModelSpec, PackageSpec]]) -> None:
    for role, companion in spec.companions.items():
        where = f"{spec.family}.json: $.companions.{role}"
        if companion.package not in packages:
            raise SpecError(f"{where}.package: {companion.package!r} is in no spec")
        owner, package = packages[companion.package]
        if owner.companions:
            raise SpecError(f"{where}.package: {companion.package!r} has companions itself")
        roles = {file.role for file in package.files}
        if companion.role not in roles:
            raise SpecError(f"{where}.role: {companion.role!r} is none of {', '.join(sorted(roles))}")
