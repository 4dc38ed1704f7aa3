"""The contract of a model family: what it does, which options it takes, which packages of files it loads.

A spec is one JSON file, `model_specs/<family>.json`. It is data for both sides of the wire: nothing here imports
numpy, a runtime or an event loop, and nothing here looks at the disk for model files.
"""

from pathlib import PurePosixPath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from audiocpp.engines.tasks import Mode, OptionValue, TaskName

Identifier = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
Name = Annotated[str, Meta(min_length=1)]
RelativePath = Annotated[str, Meta(pattern=r"^[^/\\\\]+(/[^/\\\\]+)*$")]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[int, Meta(ge=1)]
SampleRate = Annotated[int, Meta(ge=1000, le=384_000)]

SPEAKER_REFERENCE = "speaker_reference"
"""The tag of a family that speaks like a recording."""

MAX_REFERENCE_RATE_HZ = 48_000
"""A minute at this rate fits into a request's frame."""

OptionType = Literal["bool", "int", "float", "string", "enum", "path", "audio_path"]
Status = Literal["experimental", "beta", "stable"]
Runtime = Literal["onnxruntime"]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frozen, and an unknown field is an error."""


class OptionSpec(_Strict, frozen=True, kw_only=True):
    """One option row. `min` and `max` are inclusive; `values` are the words an `enum` may take.

    `default` is what the family does when the option is absent, stated for the reader; it is not sent.
    """

    name: Identifier
    type: OptionType
    description: Name
    required: bool = False
    default: OptionValue | None = None
    min: float | None = None
    max: float | None = None
    values: tuple[str, ...] = ()


class Options(_Strict, frozen=True, kw_only=True):
    """Option rows by scope. A request option's public key is its name, the others' is `<family>.<name>`."""

    request: tuple[OptionSpec, ...] = ()
    session: tuple[OptionSpec, ...] = ()
    load: tuple[OptionSpec, ...] = ()


class OfflineSlots(_Strict, frozen=True, kw_only=True):
    default: Annotated[int, Meta(ge=1, le=16)] = 2
    max: Annotated[int, Meta(ge=1, le=16)] = 16


class StreamingSlots(_Strict, frozen=True, kw_only=True):
    default: Annotated[int, Meta(ge=1, le=64)] = 4
    max: Annotated[int, Meta(ge=1, le=64)] = 64


class Slots(_Strict, frozen=True, kw_only=True):
    """Places of admission of an entry, by its mode."""

    offline: OfflineSlots = OfflineSlots()
    streaming: StreamingSlots = StreamingSlots()


class Companion(_Strict, frozen=True, kw_only=True):
    """A file of another package that the family also loads: the file with `role` in `package`."""

    package: Identifier
    role: Identifier


class License(_Strict, frozen=True, kw_only=True):
    """What the files may be used for. `spdx` is an SPDX expression, `attribution` whom to name."""

    spdx: Name
    attribution: str = ""
    note: str = ""
    url: str = ""


class PypiSource(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="pypi"):
    """A member of a wheel. The same wheel is taken on every host, so `platform` names the wheel's tag.

    `archive_bytes` is the size of the wheel.
    """

    package: Name
    version: Name
    member: RelativePath
    platform: Name = "any"
    archive_bytes: Positive


class FileSource(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="file"):
    """A file on this machine, or a member of a zip archive there. A relative path starts at the spec's folder."""

    path: Name
    member: RelativePath | None = None


class NpmSource(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="npm"):
    """A member of a package's tarball, such as `package/LICENSE`. `archive_bytes` is the size of the tarball."""

    package: Name
    version: Name
    member: RelativePath
    archive_bytes: Positive


SingleSource = PypiSource | NpmSource | FileSource


class PartsSource(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="parts"):
    """A file that is published in pieces: the contents of `parts`, one after the other."""

    parts: Annotated[tuple[SingleSource, ...], Meta(min_length=2)]


Source = SingleSource | PartsSource


def parts_of(source: Source) -> tuple[SingleSource, ...]:
    """What has to be fetched for `source`, in order."""
    return source.parts if isinstance(source, PartsSource) else (source,)


class PackageFile(_Strict, frozen=True, kw_only=True):
    """A file of a package. `role` is how the family asks for it; `providers` are the backends it is made for.

    `sources` are tried in order.
    """

    name: RelativePath
    role: Identifier
    size_bytes: Positive
    sha256: Sha256
    providers: Annotated[tuple[Name, ...], Meta(min_length=1)] = ("cpu",)
    sources: Annotated[tuple[Source, ...], Meta(min_length=1)]


class PackageSpec(_Strict, frozen=True, kw_only=True):
    """A set of files that is pulled as one and lies in one folder of the models root.

    `voices` are the names that a request's `voice` may have, the default first; empty: it has one voice without a name.
    `output_sample_rate_hz` is set where the package fixes the rate of what it generates.
    """

    id: Identifier
    display_name: Name
    default: bool = False
    format: Name
    precision: Name
    license: License
    languages: tuple[Name, ...] = ()
    voices: tuple[Name, ...] = ()
    output_sample_rate_hz: SampleRate | None = None
    target_directory: Identifier
    files: Annotated[tuple[PackageFile, ...], Meta(min_length=1)]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class ModelSpec(_Strict, frozen=True, kw_only=True):
    """A family.

    Attributes:
        capabilities: task -> tags for clients that choose a model by what it can do.
        input_sample_rate_hz: the rate the family computes at; audio of other rates is resampled to it.
        threads: most compute threads a single graph run makes good use of.
        max_chunk_s: longest audio in one graph run; longer input is cut by the family.
        companions: role under which the family receives the file -> whose file it is.
    """

    schema_version: Literal[1]
    family: Identifier
    display_name: Name
    category: Name
    status: Status
    tasks: Annotated[tuple[TaskName, ...], Meta(min_length=1)]
    modes: Annotated[tuple[Mode, ...], Meta(min_length=1)]
    languages: tuple[Name, ...] = ()
    runtime: Annotated[tuple[Runtime, ...], Meta(min_length=1)]
    capabilities: dict[str, tuple[str, ...]] = {}
    input_sample_rate_hz: SampleRate | None = None
    slots: Slots = Slots()
    threads: Positive = 1
    max_chunk_s: Annotated[float, Meta(gt=0)] | None = None
    options: Options = Options()
    companions: dict[str, Companion] = {}
    packages: Annotated[tuple[PackageSpec, ...], Meta(min_length=1)]

    @property
    def takes_reference(self) -> bool:
        """Whether it speaks like a recording that comes with the request."""
        return any(SPEAKER_REFERENCE in tags for tags in self.capabilities.values())

    def declares(self, option: str) -> bool:
        """Whether a request may set this option."""
        return any(row.name == option for row in self.options.request)

    @property
    def default_package(self) -> PackageSpec:
        return next(package for package in self.packages if package.default)


def is_inside(path: str) -> bool:
    """Whether a relative path of a spec stays inside the folder it is joined to."""
    return ".." not in PurePosixPath(path).parts and "." not in path.split("/")
