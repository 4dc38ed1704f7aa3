"""Which specs a catalog holds and how they are checked against each other."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.fakes.packages import model_spec, package_file

from audiocpp.engines.catalog import Catalog
from audiocpp.engines.errors import SpecError
from audiocpp.engines.spec import Companion, FileSource, ModelSpec, PartsSource

GRAPH = package_file("graph.onnx", b"graph", FileSource(path="graph.onnx"))


def write(folder: Path, spec: ModelSpec, name: str | None = None) -> Path:
    path = folder / (name or f"{spec.family}.json")
    path.write_bytes(msgspec.json.encode(spec))
    return path


def test_the_bundled_packages_of_the_first_families_are_found_by_id() -> None:
    catalog = Catalog.load()
    families = {package.id: spec.family for spec, package in catalog.packages()}
    assert families.items() >= {
        ("moonshine_tiny_en", "moonshine_asr"),
        ("piper_en_us_joe_medium", "piper_tts"),
        ("silero_vad", "silero_vad"),
    }
    assert [package.id for package in catalog.companions(catalog.family("moonshine_asr"))] == ["silero_vad"]


def test_a_family_of_the_override_replaces_the_bundled_one_and_a_new_one_is_added(tmp_path: Path) -> None:
    write(tmp_path, msgspec.structs.replace(Catalog.load().family("silero_vad"), display_name="Ours"))
    write(tmp_path, model_spec("toy", GRAPH))
    catalog = Catalog.load(tmp_path)
    assert catalog.family("silero_vad").display_name == "Ours"
    assert set(catalog.families) == {*Catalog.load().families, "toy"}


def test_an_override_may_be_one_file_and_its_paths_start_at_its_folder(tmp_path: Path) -> None:
    catalog = Catalog.load(None, write(tmp_path, model_spec("toy", GRAPH)))
    _, package = catalog.package("toy")
    assert package.files[0].sources == (FileSource(path=str(tmp_path / "graph.onnx")),)


def test_the_paths_of_pieces_start_at_the_folder_too(tmp_path: Path) -> None:
    pieces = PartsSource(parts=(FileSource(path="a.part"), FileSource(path="b.part")))
    catalog = Catalog.load(write(tmp_path, model_spec("toy", package_file("graph.onnx", b"graph", pieces))))
    _, package = catalog.package("toy")
    parts = tuple(FileSource(path=str(tmp_path / name)) for name in ("a.part", "b.part"))
    assert package.files[0].sources == (PartsSource(parts=parts),)


def test_a_file_whose_name_is_not_the_family_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, model_spec("toy", GRAPH), "other.json")
    with pytest.raises(SpecError, match=r"^other\.json: \$\.family: 'toy' must equal"):
        Catalog.load(path)


def test_an_override_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.json: cannot be read"):
        Catalog.load(tmp_path / "absent.json")


def test_two_families_cannot_have_a_package_of_one_id() -> None:
    toy = model_spec("toy", GRAPH)
    with pytest.raises(SpecError, match=r"id 'toy' is also one of"):
        Catalog.of([toy, msgspec.structs.replace(toy, family="other")])


def test_two_packages_cannot_lie_in_one_folder() -> None:
    toy = model_spec("toy", GRAPH)
    package = msgspec.structs.replace(toy.packages[0], id="other")
    with pytest.raises(SpecError, match="target_directory is also that of"):
        Catalog.of([toy, msgspec.structs.replace(toy, family="other", packages=(package,))])


@pytest.mark.parametrize(
    ("companion", "message"),
    [
        (Companion(package="absent", role="graph"), r"\$\.companions\.vad\.package: 'absent' is in no spec"),
        (Companion(package="vad", role="absent"), r"\$\.companions\.vad\.role: 'absent' is none of graph"),
        (Companion(package="asr", role="other"), r"\$\.companions\.vad\.package: 'asr' has companions itself"),
    ],
)
def test_a_companion_must_exist_and_have_none_itself(companion: Companion, message: str) -> None:
    specs = [model_spec("vad", GRAPH), model_spec("asr", GRAPH, companions={"vad": companion})]
    with pytest.raises(SpecError, match=rf"^asr\.json: {message}"):
        Catalog.of(specs)


@pytest.mark.parametrize("name", ["family", "package"])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    catalog = Catalog.of([model_spec("toy", GRAPH)])
    with pytest.raises(SpecError, match=r"'nope' is not known; known: toy"):
        getattr(catalog, name)("nope")


def test_reading_specs_imports_no_numpy_no_runtime_and_no_schema_library() -> None:
    code = (
        "import sys; from audiocpp.engines import catalog, host, options, placement; catalog.Catalog.load(); "
        "host.read_host(); heavy = {'numpy', 'onnxruntime', 'soundfile', 'jsonschema', 'trio'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"
