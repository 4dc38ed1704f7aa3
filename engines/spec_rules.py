"""Reads a spec from JSON and checks what its types alone do not say."""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from audiocpp.engines.errors import SpecError
from audiocpp.engines.options import check_option
from audiocpp.engines.spec import (
    MAX_REFERENCE_RATE_HZ,
    ModelSpec,
    OptionSpec,
    PackageFile,
    PackageSpec,
    is_inside,
)

_decoder = msgspec.json.Decoder(ModelSpec)


def parse_spec(data: bytes, *, origin: str) -> ModelSpec:
    """The spec in `data`. Raises `SpecError` that starts with `origin` and the path of the field at fault."""
    try:
        spec = _decoder.decode(data)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `")
        raise SpecError(f"{origin}: {where.rstrip('`') or '$'}: {what}") from error
    except msgspec.DecodeError as error:
        raise SpecError(f"{origin}: not JSON: {error}") from error
    for where, what in _faults(spec):
        raise SpecError(f"{origin}: $.{where}: {what}")
    return spec


def _faults(spec: ModelSpec) -> Iterator[tuple[str, str]]:
    yield from _slot_faults(spec)
    yield from _reference_faults(spec)
    for scope in ("request", "session", "load"):
        rows: tuple[OptionSpec, ...] = getattr(spec.options, scope)
        yield from _repeated(f"options.{scope}", "name", (row.name for row in rows))
        for index, row in enumerate(rows):
            yield from _option_faults(f"options.{scope}[{index}]", row)
    defaults = [package.id for package in spec.packages if package.default]
    if len(defaults) != 1:
        yield "packages", f"exactly one must be the default, not {len(defaults)}"
    yield from _repeated("packages", "id", (package.id for package in spec.packages))
    for index, package in enumerate(spec.packages):
        yield from _package_faults(f"packages[{index}]", package, taken=frozenset(spec.companions))


def _slot_faults(spec: ModelSpec) -> Iterator[tuple[str, str]]:
    for mode, slots in (("offline", spec.slots.offline), ("streaming", spec.slots.streaming)):
        if slots.default > slots.max:
            yield f"slots.{mode}.default", f"{slots.default} is above max {slots.max}"


def _reference_faults(spec: ModelSpec) -> Iterator[tuple[str, str]]:
    rate_hz = spec.input_sample_rate_hz or 0
    if spec.takes_reference and not 0 < rate_hz <= MAX_REFERENCE_RATE_HZ:
        yield (
            "input_sample_rate_hz",
            f"a family that takes recordings of voices says their rate, at most {MAX_REFERENCE_RATE_HZ}",
        )


def _option_faults(where: str, row: OptionSpec) -> Iterator[tuple[str, str]]:
    if (row.type == "enum") != bool(row.values):
        yield f"{where}.values", "an enum, and nothing else, lists its values"
    if row.type not in ("int", "float") and not (row.min is None and row.max is None):
        yield where, f"min and max have no meaning for type {row.type}"
    if row.required and row.default is not None:
        yield f"{where}.default", "a required option has no default"
    if row.default is not None:
        yield from _default_faults(where, row, row.default)


def _default_faults(where: str, row: OptionSpec, default: object) -> Iterator[tuple[str, str]]:
    try:
        check_option(row, default)
    except ValueError as error:
        yield f"{where}.default", str(error)


def _package_faults(where: str, package: PackageSpec, *, taken: frozenset[str]) -> Iterator[tuple[str, str]]:
    yield from _repeated(f"{where}.files", "name", (file.name for file in package.files))
    yield from _repeated(
        f"{where}.files",
        "role for one provider",
        (f"{file.role}/{name}" for file in package.files for name in file.providers),
    )
    for index, file in enumerate(package.files):
        yield from _file_faults(f"{where}.files[{index}]", file, taken=taken)


def _file_faults(where: str, file: PackageFile, *, taken: frozenset[str]) -> Iterator[tuple[str, str]]:
    if file.role in taken:
        yield f"{where}.role", f"{file.role!r} is the role of a companion"
    if not is_inside(file.name) or file.name.startswith("."):
        yield f"{where}.name", f"{file.name!r} must lie inside the package's folder and not be hidden"


def _repeated(where: str, what: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    for value, count in Counter(values).items():
        if count > 1:
            yield where, f"the {what} {value!r} occurs {count} times"
