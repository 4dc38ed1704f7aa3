"""The planner: its table walked pair by pair, and the effects it asks for. No process and no clock."""

import itertools
from collections.abc import Sequence

import pytest

from audiocpp.daemon.errors import ModelFailed, ModelNotInstalled
from audiocpp.daemon.eviction import Decision, Fits
from audiocpp.daemon.lifecycle import TRANSITIONS, Model, State, Ticket, Trigger, Unexpected
from audiocpp.daemon.residency import (
    CRASHES_ALLOWED,
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    Effect,
    Grant,
    Load,
    Planner,
    Refuse,
    Unload,
)

NAME = "key"


class Endless:
    """Memory without a limit."""

    def decide(self, model: Model, others: Sequence[Model]) -> Decision:
        return Fits()


def planner(state: State = State.UNLOADED) -> Planner:
    return Planner([Model(name=NAME, label="piper", pull_command="audiocppctl pull voice", state=state)], Endless())


def resident() -> Planner:
    ready = planner()
    ready.request(Ticket(NAME, leases=False), now=0)
    ready.loaded(NAME, now=0)
    return ready


def leased(plan: Planner) -> Ticket:
    ticket = Ticket(NAME)
    assert plan.request(ticket, now=0) == [Grant(ticket)]
    return ticket


def state(plan: Planner) -> State:
    return plan.models[NAME].state


@pytest.mark.parametrize(("before", "trigger"), list(itertools.product(State, Trigger)))
def test_every_pair_is_either_in_the_table_or_an_error(before: State, trigger: Trigger) -> None:
    plan = planner(before)
    model = plan.models[NAME]
    if (before, trigger) in TRANSITIONS:
        model.apply(trigger)
        assert model.state is TRANSITIONS[before, trigger]
    else:
        with pytest.raises(Unexpected, match="piper"):
            model.apply(trigger)
        assert model.state is before


def test_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS.values()) == set(State)
    assert {before for before, _ in TRANSITIONS} == set(State)


def test_concurrent_first_requests_share_one_load() -> None:
    plan, tickets = planner(), [Ticket(NAME) for _ in range(4)]
    effects = [effect for ticket in tickets for effect in plan.request(ticket, now=0)]
    assert effects == [Load(NAME)]
    assert plan.loaded(NAME, now=1) == [Grant(ticket) for ticket in tickets]
    assert plan.models[NAME].leases == 4


def test_a_resident_model_is_granted_at_once() -> None:
    plan = resident()
    leased(plan)
    assert state(plan) is State.BUSY


def test_the_last_release_makes_the_model_idle_and_remembers_when() -> None:
    plan = resident()
    first, second = leased(plan), leased(plan)
    plan.release(first, now=5, answered=True)
    assert state(plan) is State.BUSY
    plan.release(second, now=7, answered=True)
    assert state(plan) is State.READY
    assert plan.models[NAME].idle_since == 7


def test_a_missing_package_is_refused_with_the_command_that_installs_it() -> None:
    (effect,) = planner(State.NOT_INSTALLED).request(Ticket(NAME), now=0)
    assert isinstance(effect, Refuse)
    assert isinstance(effect.error, ModelNotInstalled)
    assert effect.error.message.endswith("audiocppctl pull voice")


def test_an_idle_model_is_unloaded_at_once_and_a_busy_one_after_its_last_lease() -> None:
    plan = resident()
    assert plan.drain(NAME) == [Unload(NAME)]
    assert plan.unloaded(NAME) == []
    assert state(plan) is State.UNLOADED

    plan = resident()
    ticket = leased(plan)
    assert plan.drain(NAME) == []
    assert plan.release(ticket, now=1, answered=True) == [Unload(NAME)]


def test_a_request_during_draining_loads_the_model_again_afterwards() -> None:
    plan = resident()
    ticket, later = leased(plan), Ticket(NAME)
    plan.drain(NAME)
    assert plan.request(later, now=1) == []
    plan.release(ticket, now=2, answered=True)
    assert plan.unloaded(NAME) == [Load(NAME)]
    assert plan.loaded(NAME, now=3) == [Grant(later)]


def test_a_drain_that_is_taken_back_serves_those_who_waited() -> None:
    plan = resident()
    leased(plan)
    later = Ticket(NAME)
    plan.drain(NAME)
    plan.request(later, now=1)
    assert plan.keep(NAME) == [Grant(later)]
    assert state(plan) is State.BUSY
    assert plan.models[NAME].leases == 2


def test_draining_a_model_that_is_not_resident_does_nothing() -> None:
    assert planner().drain(NAME) == []


def test_a_failed_load_is_told_to_all_who_wait_and_then_backs_off() -> None:
    plan, tickets = planner(), [Ticket(NAME), Ticket(NAME)]
    for ticket in tickets:
        plan.request(ticket, now=0)
    error = ModelFailed("truncated file")
    assert plan.load_failed(NAME, error, now=10) == [Refuse(ticket, error) for ticket in tickets]
    (refusal,) = plan.request(Ticket(NAME), now=10)
    assert isinstance(refusal, Refuse)
    assert "truncated file" in refusal.error.message
    assert refusal.error.retry_after_s == pytest.approx(FIRST_BACKOFF_S)
    assert plan.request(Ticket(NAME), now=10 + FIRST_BACKOFF_S) == [Load(NAME)]


def test_the_back_off_doubles_up_to_its_limit_and_a_load_resets_it() -> None:
    plan, now, waits = planner(), 0.0, []
    for _ in range(10):
        assert plan.request(Ticket(NAME), now=now) == [Load(NAME)]
        plan.load_failed(NAME, ModelFailed("no"), now=now)
        waits.append(plan.models[NAME].retry_at - now)
        now = plan.models[NAME].retry_at
    assert waits[:3] == [FIRST_BACKOFF_S, 2 * FIRST_BACKOFF_S, 4 * FIRST_BACKOFF_S]
    assert waits[-1] == LONGEST_BACKOFF_S
    plan.request(Ticket(NAME), now=now)
    plan.loaded(NAME, now=now)
    assert plan.models[NAME].failures == 0
    assert plan.models[NAME].reason == ""


def test_a_worker_that_dies_returns_its_model_to_unloaded_and_voids_its_leases() -> None:
    plan = resident()
    old = leased(plan)
    assert plan.died(NAME, "killed", now=1) == []
    assert state(plan) is State.UNLOADED
    assert plan.request(Ticket(NAME), now=1) == [Load(NAME)]
    plan.loaded(NAME, now=2)
    assert plan.release(old, now=3, answered=False) == []
    assert plan.models[NAME].leases == 1


def test_a_worker_that_dies_while_loading_fails_those_who_wait() -> None:
    plan, ticket = planner(), Ticket(NAME)
    plan.request(ticket, now=0)
    (effect,) = plan.died(NAME, "killed by SIGSEGV", now=1)
    assert isinstance(effect, Refuse)
    assert effect.ticket is ticket
    assert "SIGSEGV" in effect.error.message
    assert state(plan) is State.FAILED


def test_a_model_whose_worker_keeps_dying_is_given_up_for_a_while() -> None:
    plan = resident()
    for _ in range(CRASHES_ALLOWED):
        plan.died(NAME, "killed", now=1)
        assert state(plan) is State.UNLOADED
        plan.request(Ticket(NAME), now=1)
        plan.loaded(NAME, now=1)
    plan.died(NAME, "killed", now=1)
    assert state(plan) is State.FAILED


def test_an_answered_request_forgives_earlier_crashes() -> None:
    plan = resident()
    for _ in range(3 * CRASHES_ALLOWED):
        plan.died(NAME, "killed", now=1)
        ticket = Ticket(NAME)
        plan.request(ticket, now=1)
        plan.loaded(NAME, now=1)
        plan.release(ticket, now=1, answered=True)
        assert state(plan) is State.READY


def test_a_worker_ended_by_a_forced_unload_is_no_crash() -> None:
    plan = resident()
    leased(plan)
    plan.drain(NAME)
    plan.died(NAME, "killed", now=1)
    assert state(plan) is State.UNLOADED
    assert plan.models[NAME].crashes == 0


def test_one_who_leaves_while_waiting_is_forgotten_and_the_load_goes_on() -> None:
    plan, ticket = planner(), Ticket(NAME)
    plan.request(ticket, now=0)
    plan.abandon(ticket)
    effects: list[Effect] = plan.loaded(NAME, now=1)
    assert effects == []
    assert state(plan) is State.READY


def test_loading_without_a_lease_leaves_the_model_idle() -> None:
    assert state(resident()) is State.READY


def test_a_package_that_comes_or_goes_changes_what_is_not_in_memory() -> None:
    plan = planner(State.NOT_INSTALLED)
    plan.set_installed(NAME, installed=True)
    assert state(plan) is State.UNLOADED
    plan.set_installed(NAME, installed=False)
    assert state(plan) is State.NOT_INSTALLED
    busy = resident()
    busy.set_installed(NAME, installed=False)
    assert state(busy) is State.READY
