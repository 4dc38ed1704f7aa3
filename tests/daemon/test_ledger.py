"""Room for models under each limit, and the planner that asks for it."""

from collections.abc import Sequence

from audiocpp.daemon.errors import InsufficientMemory
from audiocpp.daemon.estimates import Measurement
from audiocpp.daemon.eviction import ByteLimit
from audiocpp.daemon.ledger import Ledger, MemoryLimits
from audiocpp.daemon.lifecycle import Leaving, Model, State, Ticket
from audiocpp.daemon.residency import Effect, Grant, Load, Planner, Refuse, Unload

MIB = 1 << 20


class Machine:
    """Models `a` to `d` of 100 MiB each, and a host whose free memory follows from what is in it."""

    def __init__(self, *, host_mib: int = 10_000, pinned: str = "", keep_alive_s: float | None = None, **limits: int):
        self.host_bytes = host_mib * MIB
        self.learned: dict[str, Measurement] = {}
        self.pressure = 0.0
        self.ledger = Ledger(
            MemoryLimits(**limits),
            probe=self.probe,
            estimate=self.estimate,
            learn=self.learned.__setitem__,
            pressure=lambda: self.pressure,
        )
        models = [
            Model(name, name, f"audiocppctl pull {name}", pinned=name in pinned, keep_alive_s=keep_alive_s)
            for name in "abcd"
        ]
        self.planner = Planner(models, self.ledger)

    def estimate(self, name: str) -> Measurement:
        return self.learned.get(name, Measurement(loaded_bytes=100 * MIB))

    def probe(self) -> Sequence[ByteLimit]:
        held = sum(self.ledger.row(name).resident_bytes or 0 for name in "abcd")
        return [ByteLimit("host", self.host_bytes - held)]

    def request(self, name: str, now: float = 0.0) -> tuple[Ticket, list[Effect]]:
        ticket = Ticket(name)
        return ticket, self.planner.request(ticket, now=now)

    def load(self, name: str, now: float = 0.0) -> Ticket:
        """A request to a model that has room; the ticket holds a lease."""
        ticket, effects = self.request(name, now)
        assert effects == [Load(name)]
        self.ledger.measured(name, 100 * MIB)
        assert Grant(ticket) in self.planner.loaded(name, now=now)
        return ticket

    def use(self, name: str, now: float) -> None:
        """A model used once and idle since `now`."""
        self.release(self.load(name, now), now)

    def release(self, ticket: Ticket, now: float = 0.0) -> list[Effect]:
        return self.planner.release(ticket, now=now, answered=True)

    def unloaded(self, name: str) -> list[Effect]:
        self.ledger.forget(name)
        return self.planner.unloaded(name)

    def state(self, name: str) -> State:
        return self.planner.models[name].state


def test_one_place_swaps_idle_models_and_never_has_two_in_memory() -> None:
    machine = Machine(max_models=1)
    machine.use("a", now=1)
    ticket, effects = machine.request("b")
    assert effects == [Unload("a")]
    assert machine.state("b") is State.UNLOADED
    assert machine.unloaded("a") == [Load("b")]
    assert machine.planner.loaded("b", now=2) == [Grant(ticket)]


def test_a_busy_model_is_never_evicted_and_the_next_waits_for_it() -> None:
    machine = Machine(max_models=1)
    running = machine.load("a")
    assert machine.request("b")[1] == []
    assert machine.planner.waits_for_room("b")
    assert machine.release(running) == [Unload("a")]


def test_those_who_wait_for_room_are_served_in_order_of_arrival() -> None:
    machine = Machine(max_models=1)
    running = machine.load("a")
    machine.request("b")
    machine.request("c")
    assert machine.release(running) == [Unload("a")]
    assert machine.unloaded("a") == [Load("b")]
    assert machine.planner.loaded("b", now=1)[-1:] != [Load("c")]
    assert machine.state("c") is State.UNLOADED


def test_a_request_to_a_resident_model_is_not_delayed_by_one_that_waits() -> None:
    machine = Machine(max_models=1)
    machine.load("a")
    machine.request("b")
    ticket, effects = machine.request("a")
    assert effects == [Grant(ticket)]


def test_a_pinned_model_stays_and_what_cannot_fit_beside_it_is_refused_with_the_figures() -> None:
    machine = Machine(pinned="a", max_resident_bytes=150 * MIB)
    machine.use("a", now=1)
    (refusal,) = machine.request("b")[1]
    assert isinstance(refusal, Refuse)
    assert isinstance(refusal.error, InsufficientMemory)
    assert "'b' needs 100 MiB, but max_resident_memory_mb allows 50 MiB; held by a" in refusal.error.message


def test_the_least_recently_used_idle_models_make_room() -> None:
    machine = Machine(max_resident_bytes=300 * MIB)
    for name, now in (("a", 3), ("b", 1), ("c", 2)):
        machine.use(name, now=now)
    assert machine.request("d")[1] == [Unload("b")]


def test_headroom_on_the_host_is_kept() -> None:
    machine = Machine(host_mib=250, min_free_bytes=100 * MIB)
    machine.use("a", now=1)
    assert machine.request("b")[1] == [Unload("a")]


def test_loads_in_progress_are_counted_before_they_are_measured() -> None:
    machine = Machine(host_mib=150)
    assert machine.request("a")[1] == [Load("a")]
    assert machine.request("b")[1] == []
    assert machine.planner.waits_for_room("b")


def test_a_measurement_replaces_the_estimate_the_next_time() -> None:
    machine = Machine(max_resident_bytes=150 * MIB)
    machine.release(machine.load("a"))
    machine.planner.drain("a")
    machine.unloaded("a")
    machine.learned["b"] = Measurement(loaded_bytes=40 * MIB)
    machine.load("a")
    assert machine.request("b")[1] == [Load("b")]


def test_what_runs_need_is_kept_free_for_them_also_between_runs() -> None:
    machine = Machine(max_resident_bytes=230 * MIB)
    ticket = machine.load("a")
    machine.ledger.measured("a", 140 * MIB)
    machine.ledger.measured("a", 100 * MIB)
    assert machine.request("b")[1] == []
    assert machine.release(ticket) == [Unload("a")]


def test_the_workspace_is_remembered_for_the_next_load() -> None:
    machine = Machine(max_resident_bytes=130 * MIB)
    ticket = machine.load("a")
    machine.ledger.measured("a", 140 * MIB)
    machine.release(ticket)
    machine.planner.drain("a")
    machine.unloaded("a")
    assert machine.learned["a"] == Measurement(loaded_bytes=100 * MIB, workspace_bytes=40 * MIB)
    (refusal,) = machine.request("a")[1]
    assert isinstance(refusal, Refuse)


def test_a_waiting_load_is_given_up_with_the_last_who_wanted_it() -> None:
    machine = Machine(max_models=1)
    running = machine.load("a")
    first, second = machine.request("b")[0], machine.request("b")[0]
    third = machine.request("c")[0]
    machine.planner.abandon(first)
    assert machine.planner.waits_for_room("b")
    machine.planner.abandon(second)
    assert not machine.planner.waits_for_room("b")
    machine.release(running)
    assert machine.unloaded("a") == [Load("c")]
    assert machine.planner.loaded("c", now=1) == [Grant(third)]


def test_idle_models_leave_when_their_time_is_up_and_not_before() -> None:
    machine = Machine(keep_alive_s=10.0)
    machine.use("a", now=5)
    assert machine.planner.next_expiry() == 15
    assert machine.planner.expire(now=14.9) == []
    assert machine.planner.expire(now=15) == [Unload("a")]
    assert machine.planner.models["a"].leaving is Leaving.IDLE


def test_a_model_kept_for_no_time_leaves_with_its_last_release() -> None:
    machine = Machine(keep_alive_s=0.0)
    first, second = machine.load("a"), machine.request("a")[0]
    assert machine.release(first, now=1) == []
    assert machine.release(second, now=2) == [Unload("a")]


def test_a_pinned_model_does_not_expire() -> None:
    machine = Machine(keep_alive_s=1.0, pinned="a")
    machine.use("a", now=0)
    assert machine.planner.next_expiry() == float("inf")
    assert machine.planner.expire(now=100) == []


def test_under_pressure_idle_models_leave_one_by_one_and_nothing_is_loaded() -> None:
    machine = Machine(pinned="c")
    for name, now in (("a", 2), ("b", 1), ("c", 0)):
        machine.use(name, now=now)
    machine.pressure = 50.0
    assert machine.planner.shed() == [Unload("b")]
    assert machine.planner.models["b"].leaving is Leaving.PRESSURE
    machine.unloaded("b")
    assert machine.planner.shed() == [Unload("a")]
    machine.unloaded("a")
    assert machine.planner.shed() == []
    ticket, effects = machine.request("d")
    assert effects == []
    assert machine.planner.waits_for_room("d")
    machine.pressure = 0.0
    assert machine.planner.retry() == [Load("d")]
    assert machine.planner.loaded("d", now=3) == [Grant(ticket)]


def test_under_pressure_a_model_in_use_goes_on() -> None:
    machine = Machine()
    machine.load("a")
    machine.pressure = 50.0
    assert machine.planner.shed() == []
    ticket, effects = machine.request("a")
    assert effects == [Grant(ticket)]
