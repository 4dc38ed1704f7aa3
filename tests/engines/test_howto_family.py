"""The family in docs/howto/add-a-family.md: its contract is valid and its code does what the page says."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import Data, LoadContext
from audiocpp.engines.graph import Array
from audiocpp.engines.inline import run_inline
from audiocpp.engines.spec_rules import parse_spec
from audiocpp.engines.tasks import AudioFormat, Segment, TaskRequest

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "add-a-family.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first block of a language in the page."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


class LoudnessGraph:
    """A frame's probability is its loudest sample."""

    def run(
        self, feeds: Mapping[str, Array], control: RunControl, *, outputs: Sequence[str] | None = None
    ) -> list[Array]:
        return [np.abs(feeds["frames"]).max(axis=1)]

    def close(self) -> None: ...


@pytest.fixture
def model() -> Any:
    namespace: dict[str, Any] = {"__name__": "toy_vad"}
    exec(compile(block("python"), "add-a-family.md", "exec"), namespace)  # the page's own code
    files = {file.role: Path(file.name) for file in parse_spec(block("json").encode(), origin="page").packages[0].files}
    return namespace["ToyVad"].load(LoadContext(files=files, open_graph=lambda path, options: LoudnessGraph()))


def segments(model: Any, samples: np.ndarray, *, split: int = 7, **options: Any) -> list[tuple[float, float]]:
    request = TaskRequest(task="vad", audio=AudioFormat(sample_rate=16_000), options=options)
    pcm = samples.astype("<f4").tobytes()
    pieces = [Data(pcm[start : start + split]) for start in range(0, len(pcm), split)]
    found = list(run_inline(model.run(request), pieces))
    assert all(isinstance(event, Segment) for event in found)
    return [(event.start, event.end) for event in found]  # type: ignore[union-attr]


def test_family_finds_the_loud_part_however_the_audio_is_split(model: Any) -> None:
    samples = np.zeros(1600)
    samples[320:640] = 0.8
    assert segments(model, samples) == segments(model, samples, split=4096) == [(0.02, 0.04)]


def test_option_is_heard(model: Any) -> None:
    assert segments(model, np.full(320, 0.8), threshold=0.9) == []


def test_no_audio_has_no_segments(model: Any) -> None:
    assert segments(model, np.zeros(0)) == []


def test_request_without_audio_is_refused_by_name(model: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        model.run(TaskRequest(task="vad"))
    assert refusal.value.param == "audio"


def test_warm_up_runs_the_graph(model: Any) -> None:
    model.warm_up()
