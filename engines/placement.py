"""Decides where a model runs: which runtime, which of its providers, how many threads. Pure.

A provider is a row of `BACKENDS`. What a row cannot serve is refused with the reason, never replaced in silence.
"""

from collections.abc import Iterator

import msgspec

from audiocpp.engines.host import HostFacts
from audiocpp.engines.spec import ModelSpec, PackageSpec

AUTO = "auto"

ProviderOptions = dict[str, str]


class Placement(msgspec.Struct, frozen=True):
    """Where a model's graphs are to run.

    `providers` are the runtime's own names with their options, best first; `threads` is for one graph run.
    """

    runtime: str
    backend: str
    device: int
    providers: tuple[tuple[str, ProviderOptions], ...]
    threads: int
    reason: str


class Refusal(msgspec.Struct, frozen=True):
    """Why a backend does not serve. `reason` says what would have to be done."""

    backend: str
    reason: str


class PlacementChoice(msgspec.Struct, frozen=True):
    """Possible placements, best first, and the backends that were looked at and refused."""

    placements: tuple[Placement, ...]
    refusals: tuple[Refusal, ...]

    def explain(self) -> str:
        """The refusals in one line."""
        return "; ".join(f"{refusal.backend}: {refusal.reason}" for refusal in self.refusals)


class Backend(msgspec.Struct, frozen=True):
    """One row: a provider of a runtime. `install` says how the runtime gets here."""

    name: str
    runtime: str
    provider: str
    install: str
    devices: int = 1


BACKENDS = (Backend("cpu", "onnxruntime", "CPUExecutionProvider", install="pip install 'audiocppd[cpu]'"),)
"""In the order that `auto` prefers."""

UNSUPPORTED = {
    "cuda": "needs an NVIDIA GPU and ONNX Runtime's CUDA build (pip install onnxruntime-gpu)",
    "hip": "needs an AMD GPU and ONNX Runtime's MIGraphX build",
    "rocm": "needs an AMD GPU and ONNX Runtime's MIGraphX build",
    "vulkan": "needs a GPU and ONNX Runtime's WebGPU plugin (pip install onnxruntime-ep-webgpu)",
    "metal": "exists on macOS only",
}
"""Backend names of the reference that have no row yet -> what they would take."""

_UNTIL_THEN = "this version cannot place models there; set the backend to auto or cpu"


def choose_placement(
    spec: ModelSpec, package: PackageSpec, host: HostFacts, *, wanted: str, device: int = 0, threads: int | None = None
) -> PlacementChoice:
    """All ways to run `package` on `host` as `wanted` (a backend's name or `auto`), and why the others are none.

    A graph run gets as many threads as the family makes good use of and the host has, unless `threads` says
    otherwise. That number is not divided by the slots: a lone request should be fast, and runs that meet share the
    cores without spinning.
    """
    placements = []
    refusals = list(_unserved(wanted))
    for backend in BACKENDS:
        if wanted not in (AUTO, backend.name):
            continue
        if reason := _refusal(backend, spec, package, host=host, device=device):
            refusals.append(Refusal(backend.name, reason))
        else:
            placements.append(_place(backend, spec, host, wanted=wanted, device=device, threads=threads))
    return PlacementChoice(tuple(placements), tuple(refusals))


def _unserved(wanted: str) -> Iterator[Refusal]:
    if wanted in UNSUPPORTED:
        yield Refusal(wanted, f"{UNSUPPORTED[wanted]}, and {_UNTIL_THEN}")
    elif wanted != AUTO and wanted not in {backend.name for backend in BACKENDS}:
        known = ", ".join([AUTO, *(backend.name for backend in BACKENDS), *UNSUPPORTED])
        yield Refusal(wanted, f"no backend has this name; known: {known}")


def _refusal(backend: Backend, spec: ModelSpec, package: PackageSpec, *, host: HostFacts, device: int) -> str | None:
    if backend.runtime not in spec.runtime:
        return f"{spec.family} runs on {', '.join(spec.runtime)} only"
    if not any(backend.name in file.providers for file in package.files):
        made_for = sorted({name for file in package.files for name in file.providers})
        return f"{package.id} has no files for it, only for {', '.join(made_for)}"
    if backend.runtime not in host.runtimes:
        return f"{backend.runtime} is not installed; run: {backend.install}"
    if not 0 <= device < backend.devices:
        return f"device {device} does not exist; there are {backend.devices}, counted from 0"
    return None


def _place(
    backend: Backend, spec: ModelSpec, host: HostFacts, *, wanted: str, device: int, threads: int | None
) -> Placement:
    return Placement(
        runtime=backend.runtime,
        backend=backend.name,
        device=device,
        providers=((backend.provider, {}),),
        threads=threads if threads is not None else min(spec.threads, host.cores),
        reason="asked for" if wanted == backend.name else "the best that is here",
    )
