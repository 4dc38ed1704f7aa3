"""Where models are put, and the reasons of refusals."""

import msgspec
import pytest
from tests.fakes.packages import model_spec, package_file

from audiocpp.engines.host import HostFacts
from audiocpp.engines.placement import UNSUPPORTED, Placement, choose_placement
from audiocpp.engines.spec import FileSource, ModelSpec, PackageSpec

GRAPH = package_file("graph.onnx", b"graph", FileSource(path="/graph.onnx"))


def host(cores: int = 4, runtimes: frozenset[str] = frozenset({"onnxruntime"})) -> HostFacts:
    return HostFacts(
        cores=cores, arch="aarch64", memory_total_bytes=1 << 32, memory_available_bytes=1 << 31, runtimes=runtimes
    )


def toy(threads: int = 2) -> tuple[ModelSpec, PackageSpec]:
    spec = msgspec.structs.replace(model_spec("toy", GRAPH), threads=threads)
    return spec, spec.packages[0]


@pytest.mark.parametrize(("wanted", "reason"), [("cpu", "asked for"), ("auto", "the best that is here")])
def test_the_processor_serves_cpu_and_auto(wanted: str, reason: str) -> None:
    choice = choose_placement(*toy(), host(), wanted=wanted)
    expected = Placement(
        runtime="onnxruntime",
        backend="cpu",
        device=0,
        providers=(("CPUExecutionProvider", {}),),
        threads=2,
        reason=reason,
    )
    assert choice.placements == (expected,)
    assert choice.refusals == ()


@pytest.mark.parametrize(
    ("cores", "useful", "asked", "threads"), [(1, 4, None, 1), (4, 2, None, 2), (8, 4, None, 4), (2, 1, 6, 6)]
)
def test_threads_are_what_the_family_can_use_and_the_host_has_unless_asked(
    cores: int, useful: int, asked: int | None, threads: int
) -> None:
    (placement,) = choose_placement(*toy(useful), host(cores), wanted="auto", threads=asked).placements
    assert placement.threads == threads


@pytest.mark.parametrize("backend", sorted(UNSUPPORTED))
def test_a_backend_of_the_reference_without_support_is_refused_with_what_it_takes(backend: str) -> None:
    choice = choose_placement(*toy(), host(), wanted=backend)
    assert choice.placements == ()
    assert choice.explain() == (
        f"{backend}: {UNSUPPORTED[backend]}, and this version cannot place models there; set the backend to auto or cpu"
    )


def test_an_unknown_backend_is_refused_with_the_known_names() -> None:
    assert choose_placement(*toy(), host(), wanted="npu").explain() == (
        "npu: no backend has this name; known: auto, cpu, cuda, hip, rocm, vulkan, metal"
    )


def test_a_runtime_that_is_not_installed_is_refused_with_the_command() -> None:
    choice = choose_placement(*toy(), host(runtimes=frozenset()), wanted="auto")
    assert choice.placements == ()
    assert choice.explain() == "cpu: onnxruntime is not installed; run: pip install 'audiocppd[cpu]'"


def test_a_package_without_files_for_the_backend_is_refused() -> None:
    spec = model_spec("toy", msgspec.structs.replace(GRAPH, providers=("rknn",)))
    choice = choose_placement(spec, spec.packages[0], host(), wanted="auto")
    assert choice.explain() == "cpu: toy has no files for it, only for rknn"


def test_a_device_that_does_not_exist_is_refused() -> None:
    choice = choose_placement(*toy(), host(), wanted="cpu", device=1)
    assert choice.explain() == "cpu: device 1 does not exist; there are 1, counted from 0"
