"""The option rows of a spec against the code of its family: what one declares the other takes.

That an option without a row is refused is the daemon's doing, by the same rows.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from audiocpp.daemon.packages import PackageStore
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.families import find_family
from audiocpp.engines.family import LoadContext, LoadedModel
from audiocpp.engines.runtimes.onnxruntime import open_onnx
from audiocpp.engines.spec import ModelSpec, OptionSpec
from audiocpp.engines.tasks import AudioFormat, OptionValue, TaskRequest

pytestmark = pytest.mark.integration

CATALOG = Catalog.load()


@pytest.fixture(params=sorted(CATALOG.families))
def family(request: pytest.FixtureRequest) -> ModelSpec:
    return CATALOG.family(request.param)


@pytest.fixture
def model(family: ModelSpec, every_model: Path) -> Iterator[LoadedModel]:
    files = PackageStore(every_model, CATALOG).files(family, family.default_package)

    def open_graph(path, options):
        return open_onnx(path, options, providers=[("CPUExecutionProvider", {})], threads=1, cache_dir=None)

    with closing(find_family(family.family).load(LoadContext(files=files, open_graph=open_graph))) as loaded:
        yield loaded


def begin(model: LoadedModel, spec: ModelSpec, options: dict[str, OptionValue]) -> None:
    """Runs up to the first event or effect, where a request has been validated."""
    for mode in spec.modes:
        audio = None if spec.tasks == ("tts",) else AudioFormat(sample_rate=16000)
        request = TaskRequest(task=spec.tasks[0], mode=mode, text="Hello.", audio=audio, options=options)
        run = model.run(request)
        next(run)
        run.close()


def accepted_values(row: OptionSpec) -> list[OptionValue]:
    if row.type == "bool":
        return [True, False]
    if row.type == "enum":
        return list(row.values)
    numbers = [value for value in (row.min, row.max, row.default) if value is not None]
    return [int(value) if row.type == "int" else float(value) for value in numbers]


def refused_values(row: OptionSpec) -> list[OptionValue]:
    """Of the declared type, which is what reaches a family, but outside the declared range."""
    beyond = [row.min - 1] if row.min is not None else []
    beyond += [row.max + 1] if row.max is not None else []
    if row.type == "enum":
        return ["neither"]
    return [int(value) if row.type == "int" else float(value) for value in beyond]


def test_a_family_takes_every_value_that_its_spec_declares(family: ModelSpec, model: LoadedModel) -> None:
    for row in family.options.request:
        assert accepted_values(row), row
        for value in accepted_values(row):
            begin(model, family, {row.name: value})


def test_a_family_refuses_what_its_spec_refuses(family: ModelSpec, model: LoadedModel) -> None:
    for row in family.options.request:
        for value in refused_values(row):
            with pytest.raises(InvalidInput) as refusal:
                begin(model, family, {row.name: value})
            assert refusal.value.param == row.name


def test_the_voices_of_a_package_are_those_of_the_model(family: ModelSpec, model: LoadedModel) -> None:
    assert tuple(getattr(model, "voices", ())) == family.default_package.voices
