"""Where a model runs, beside where it was to run."""

from typing import Any, cast

from tests.fakes.services import fake_services

from audiocpp.daemon.pool import Residence
from audiocpp.daemon.residents import placed
from audiocpp.engines import wire


def residence(*, asked: list[str], graphs: list[list[str]]) -> Residence:
    command = wire.LoadModel(
        model="m",
        family="silero_vad",
        files={},
        runtime="onnxruntime",
        providers=[(name, {}) for name in asked],
        threads=1,
    )
    facts = [wire.GraphFacts(file="f", runtime="onnxruntime", providers=providers) for providers in graphs]
    loaded = wire.Loaded(model="m", load_s=0.1, warm_up_s=0.0, graphs=facts)
    return Residence(worker=cast("Any", None), asked=command, loaded=loaded, gauge=cast("Any", None))


async def test_what_was_asked_for_beside_what_runs(tmp_path: Any) -> None:
    entry = fake_services(tmp_path).registry.find("vad")
    cpu, cuda = "CPUExecutionProvider", "CUDAExecutionProvider"
    same = placed(entry, residence(asked=[cpu], graphs=[[cpu], [cpu]]))
    assert (same.model, same.backend, same.device) == ("vad", "auto", 0)
    assert (same.requested, same.effective, same.as_requested) == ((cpu,), (cpu,), True)
    fallen = placed(entry, residence(asked=[cuda], graphs=[[cuda, cpu], [cpu]]))
    assert (fallen.requested, fallen.effective, fallen.as_requested) == ((cuda,), (cuda, cpu), False)
    assert placed(entry, residence(asked=[cuda], graphs=[[cuda, cpu]])).as_requested
