"""Real worker processes with a family that hangs, dies or eats memory: each fault costs what it must and no more."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from tests.fakes.exposition import series_of, value
from tests.fakes.stub_worker import MIB, run_stub_worker

from audiocpp.daemon.errors import BodyTooLarge, DaemonError, InsufficientMemory, ModelFailed, ServerBusy, WorkerDied
from audiocpp.daemon.estimates import Measurement
from audiocpp.daemon.ledger import Ledger, MemoryLimits
from audiocpp.daemon.lifecycle import Model, State
from audiocpp.daemon.metrics import Metrics
from audiocpp.daemon.supervisor import Supervisor
from audiocpp.engines import wire
from audiocpp.engines.tasks import TaskRequest, TextDelta

pytestmark = pytest.mark.integration

LIMIT_S = 30.0
LIMITS = {"a": 150 * MIB, "b": 0}


@asynccontextmanager
async def supervisor(*, max_models: int = 0, metrics: Metrics | None = None, **load: str) -> AsyncIterator[Supervisor]:
    """Models `a` and `b`, each in its own process; `load` says how a model's load misbehaves."""
    ledger = Ledger(
        MemoryLimits(max_models=max_models),
        probe=tuple,
        estimate=lambda name: Measurement(loaded_bytes=MIB),
        learn=lambda name, measured: None,
    )
    running = Supervisor(
        make_load=lambda name: wire.LoadModel(
            model=name,
            family="stub",
            files={},
            runtime="",
            providers=[],
            threads=1,
            options={"load": load[name]} if name in load else {},
        ),
        ledger=ledger,
        threads=2,
        metrics=metrics,
        entry=run_stub_worker,
    )
    for name, limit in LIMITS.items():
        running.adopt(Model(name, name, f"audiocppctl pull {name}", limit_bytes=limit), worker_name=name)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(running.serve)
            yield running
            nursery.cancel_scope.cancel()


async def ask(running: Supervisor, model: str, text: str = "hello", *, grace_s: float = 1.0) -> str:
    """One request; the text of the answer."""
    async with running.lease(model) as lease:
        run = lease.open(TaskRequest(task="asr", text=text))
        try:
            answer = "".join([event.text async for event in run.events() if isinstance(event, TextDelta)])
            lease.answered = True
        finally:
            with trio.CancelScope(shield=True):
                if not await run.cancel(grace_s):
                    lease.kill_worker("it ignores its cancellation")
    return answer


def state(running: Supervisor, model: str) -> State:
    return running.planner.models[model].state


async def test_a_run_that_heeds_nothing_is_ended_with_its_process() -> None:
    async with supervisor() as running:
        assert await ask(running, "b") == "answered"
        with trio.move_on_after(0.2) as patience:
            await ask(running, "a", "sleep")
        assert patience.cancelled_caught
        assert await ask(running, "a") == "answered"
        assert await ask(running, "b") == "answered"


async def test_a_request_beyond_a_frame_is_refused_and_costs_no_other() -> None:
    answers: list[str] = []

    async def ask_slowly() -> None:
        answers.append(await ask(running, "a", "slow"))

    async with supervisor() as running:
        assert await ask(running, "a") == "answered"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_slowly)
            with pytest.raises(BodyTooLarge, match=str(wire.MAX_FRAME_BYTES)):
                await ask(running, "a", "x" * wire.MAX_FRAME_BYTES)
        assert answers == ["answered"]


async def test_a_process_that_dies_in_a_run_costs_that_run() -> None:
    async with supervisor() as running:
        with pytest.raises(WorkerDied, match="SIGSEGV"):
            await ask(running, "a", "segfault")
        assert await ask(running, "a") == "answered"


async def test_a_process_that_dies_while_loading_fails_the_load_and_no_other_model() -> None:
    async with supervisor(a="segfault") as running:
        with pytest.raises(ModelFailed, match="SIGSEGV"):
            await ask(running, "a")
        assert state(running, "a") is State.FAILED
        assert await ask(running, "b") == "answered"


async def test_a_run_that_eats_memory_is_stopped_at_the_limit_and_told_so() -> None:
    async with supervisor() as running:
        assert await ask(running, "b") == "answered"
        with pytest.raises(InsufficientMemory, match="150 MiB"):
            await ask(running, "a", "eat")
        assert await ask(running, "b") == "answered"
        assert await ask(running, "a") == "answered"


async def test_a_load_that_eats_memory_is_stopped_at_the_limit_too() -> None:
    async with supervisor(a="eat") as running:
        with pytest.raises(DaemonError, match="150 MiB"):
            await ask(running, "a")
        assert state(running, "a") is State.FAILED
        assert await ask(running, "b") == "answered"


async def test_unloading_waits_for_a_run_as_long_as_it_is_told_and_then_lets_it_go_on() -> None:
    async with supervisor() as running, trio.open_nursery() as nursery:
        nursery.start_soon(ask_quietly, running, "a", "sleep")
        await until(lambda: state(running, "a") is State.BUSY)
        with pytest.raises(ServerBusy, match="kept resident: a"):
            await running.unload({"a": "a"}, force=False, timeout_s=0.2)
        assert state(running, "a") is State.BUSY
        report = await running.unload({"a": "a"}, force=True, timeout_s=10.0)
        assert report.unloaded == ["a"]
        assert state(running, "a") is State.UNLOADED


async def test_a_load_that_never_ends_can_be_ended_by_force() -> None:
    async with supervisor(a="sleep") as running, trio.open_nursery() as nursery:
        nursery.start_soon(ask_quietly, running, "a", "hello")
        await until(lambda: state(running, "a") is State.LOADING)
        with pytest.raises(ServerBusy, match="still loading"):
            await running.unload({"a": "a"}, force=False, timeout_s=0.2)
        await running.unload({"a": "a"}, force=True, timeout_s=10.0)
        assert state(running, "a") is State.FAILED


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.1, 0.3, 0.6, 0.8, 1.0])
async def test_a_request_cancelled_in_any_phase_leaves_nothing_behind(after_s: float) -> None:
    """It starts the process, loads, is granted the model, runs and ends, each phase in its turn."""
    async with supervisor(a="slow") as running:
        with trio.move_on_after(after_s):
            await ask(running, "a", "slow")
        assert await ask(running, "a") == "answered"
        assert (state(running, "a"), running.planner.models["a"].leases) == (State.READY, 0)
        report = await running.unload({"a": "a"}, force=False, timeout_s=5.0)
        assert report.unloaded == ["a"]
        assert running.planner.in_memory() == []


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.4])
async def test_one_who_leaves_while_waiting_for_room_is_forgotten(after_s: float) -> None:
    async with supervisor(max_models=1) as running, trio.open_nursery() as nursery:
        nursery.start_soon(ask, running, "a", "slow")
        await until(lambda: state(running, "a") is State.BUSY)
        with trio.move_on_after(after_s):
            await ask(running, "b")
        assert await ask(running, "b") == "answered"
        assert [model.name for model in running.planner.in_memory()] == ["b"]


async def ask_quietly(running: Supervisor, model: str, text: str) -> None:
    """A request whose failure is the point of the test that makes it."""
    with pytest.raises(DaemonError):
        await ask(running, model, text)


async def until(condition: Callable[[], bool]) -> None:
    """Polls a state that other processes bring about."""
    while not condition():
        await trio.sleep(0.01)


async def test_loads_unloads_and_deaths_are_counted() -> None:
    metrics = Metrics()
    async with supervisor(max_models=1, metrics=metrics) as running:
        await ask(running, "a")
        await ask(running, "b")  # in the place of `a`
        with pytest.raises(WorkerDied):
            await ask(running, "b", "segfault")
        await ask(running, "b")
        await running.unload({"b": "b"}, force=False, timeout_s=None)
    series = series_of(metrics.exposition().decode())
    assert {
        key: count for key, count in series.items() if key[0].startswith(("audiocpp_model", "audiocpp_worker"))
    } == {
        ("audiocpp_model_loads_total", frozenset({("model", "a")})): 1,
        ("audiocpp_model_loads_total", frozenset({("model", "b")})): 2,
        ("audiocpp_model_unloads_total", frozenset({("model", "a"), ("reason", "room")})): 1,
        ("audiocpp_model_unloads_total", frozenset({("model", "b"), ("reason", "asked")})): 1,
        ("audiocpp_worker_deaths_total", frozenset({("model", "b")})): 1,
    }


async def test_a_load_that_fails_is_counted_by_its_code() -> None:
    metrics = Metrics()
    async with supervisor(metrics=metrics, a="eat") as running:
        with pytest.raises(DaemonError):
            await ask(running, "a")
    series = series_of(metrics.exposition().decode())
    assert value(series, "audiocpp_model_load_failures_total", model="a", code="insufficient_memory") == 1
    assert value(series, "audiocpp_model_loads_total", model="a") == 0
