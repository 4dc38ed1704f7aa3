"""Slots: first come first served, bounded waiting, nothing lost when somebody leaves. Time is trio's mock clock."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from audiocpp.daemon.admission import LONGEST_QUEUE, SlotQueue
from audiocpp.daemon.errors import ServerBusy

FOREVER = 0


async def hold(queue: SlotQueue, log: list[str], name: str, seconds: float, timeout_ms: int = FOREVER) -> None:
    async with queue.slot(timeout_ms):
        log.append(name)
        await trio.sleep(seconds)


async def test_requests_are_served_in_order_of_arrival(autojump_clock: MockClock) -> None:
    queue, log = SlotQueue("m", 1), []
    async with trio.open_nursery() as nursery:
        for name in "abcd":
            nursery.start_soon(hold, queue, log, name, 1.0)
            await wait_all_tasks_blocked()
    assert log == list("abcd")
    assert trio.current_time() == pytest.approx(autojump_clock.current_time())


async def test_as_many_run_at_once_as_there_are_slots(autojump_clock: MockClock) -> None:
    queue, log, started = SlotQueue("m", 3), [], trio.current_time()
    async with trio.open_nursery() as nursery:
        for name in "abcdef":
            nursery.start_soon(hold, queue, log, name, 1.0)
    assert trio.current_time() - started == pytest.approx(2.0)
    assert (queue.active, queue.queued) == (0, 0)


async def test_a_newcomer_does_not_overtake_one_who_was_just_given_a_slot(autojump_clock: MockClock) -> None:
    queue, log = SlotQueue("m", 1), []
    async with trio.open_nursery() as nursery:
        async with queue.slot(FOREVER):
            nursery.start_soon(hold, queue, log, "waiting", 1.0)
            await wait_all_tasks_blocked()
        await hold(queue, log, "newcomer", 0.0)
    assert log == ["waiting", "newcomer"]


async def test_waiting_ends_with_a_refusal_that_names_the_figures(autojump_clock: MockClock) -> None:
    queue = SlotQueue("piper", 1)
    async with queue.slot(FOREVER):
        started = trio.current_time()
        with pytest.raises(ServerBusy, match="'piper' is busy: 1 of 1 slots") as caught:
            async with queue.slot(1500):
                pytest.fail("there was no slot")
        assert trio.current_time() - started == pytest.approx(1.5)
        assert caught.value.retry_after_s is not None
    assert queue.queued == 0


async def test_nobody_waits_behind_a_run_that_is_overdue_already(autojump_clock: MockClock) -> None:
    queue = SlotQueue("m", 1)
    async with queue.slot(FOREVER):
        await trio.sleep(2.001)
        started = trio.current_time()
        with pytest.raises(ServerBusy, match="for more than 2000 ms"):
            async with queue.slot(2000):
                pytest.fail("there was no slot")
        assert trio.current_time() == started


async def test_a_run_that_is_exactly_at_the_timeout_is_not_overdue(autojump_clock: MockClock) -> None:
    queue, log = SlotQueue("m", 1), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, queue, log, "first", 3.0)
        await trio.sleep(2.0)
        await hold(queue, log, "second", 0.0, timeout_ms=2000)
    assert log == ["first", "second"]


async def test_one_healthy_slot_is_reason_to_wait(autojump_clock: MockClock) -> None:
    queue, log = SlotQueue("m", 2), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, queue, log, "overdue", 10.0)
        await trio.sleep(5.0)
        nursery.start_soon(hold, queue, log, "healthy", 1.0)
        await wait_all_tasks_blocked()
        await hold(queue, log, "third", 0.0, timeout_ms=2000)
    assert log == ["overdue", "healthy", "third"]


async def test_one_who_leaves_the_queue_is_passed_over(autojump_clock: MockClock) -> None:
    queue, log = SlotQueue("m", 1), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, queue, log, "a", 2.0)
        await wait_all_tasks_blocked()
        with trio.move_on_after(1.0):
            await hold(queue, log, "left", 1.0)
        nursery.start_soon(hold, queue, log, "b", 1.0)
    assert log == ["a", "b"]
    assert (queue.active, queue.queued) == (0, 0)


async def test_a_slot_given_in_the_moment_of_cancellation_goes_to_the_next(autojump_clock: MockClock) -> None:
    queue, log, leaver = SlotQueue("m", 1), [], trio.CancelScope()

    async def leave() -> None:
        with leaver:
            await hold(queue, log, "left", 1.0)

    async with trio.open_nursery() as nursery, queue.slot(FOREVER):
        nursery.start_soon(leave)
        await wait_all_tasks_blocked()
        nursery.start_soon(hold, queue, log, "next", 1.0)
        await wait_all_tasks_blocked()
        leaver.cancel()
    assert log == ["next"]
    assert (queue.active, queue.queued) == (0, 0)


async def test_the_slot_is_free_again_after_an_error() -> None:
    queue = SlotQueue("m", 1)
    with pytest.raises(ZeroDivisionError):
        async with queue.slot(FOREVER):
            raise ZeroDivisionError
    assert queue.active == 0


async def test_the_queue_is_bounded(autojump_clock: MockClock) -> None:
    queue = SlotQueue("m", 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, queue, [], "first", 1.0)
        await wait_all_tasks_blocked()
        for number in range(LONGEST_QUEUE):
            nursery.start_soon(hold, queue, [], str(number), 0.0)
        await wait_all_tasks_blocked()
        with pytest.raises(ServerBusy, match="the longest queue allowed"):
            async with queue.slot(FOREVER):
                pytest.fail("there was no slot")


async def reserve(queue: SlotQueue, log: list[str], name: str) -> None:
    """Holds a slot that is reserved at once, until it is wanted elsewhere."""
    async with queue.slot(FOREVER) as slot:
        wanted = trio.Event()
        slot.reserve(wanted.set)
        await wanted.wait()
        log.append(name)


async def test_a_reserved_slot_is_not_active_and_nobody_else_has_it(autojump_clock: MockClock) -> None:
    queue = SlotQueue("m", 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reserve, queue, [], "gone")
        await wait_all_tasks_blocked()
        assert (queue.active, queue.reserved) == (0, 1)
        with pytest.raises(ServerBusy, match="1 of 1 slots"):
            async with queue.slot(1000):
                pytest.fail("the slot is kept")
        queue.give_up_reserved()
    assert (queue.active, queue.reserved) == (0, 0)


async def test_a_slot_that_is_used_again_is_not_given_up(autojump_clock: MockClock) -> None:
    queue = SlotQueue("m", 1)
    async with queue.slot(FOREVER) as slot:
        slot.reserve(lambda: pytest.fail("it is in use"))
        slot.use()
        queue.give_up_reserved()
        assert (queue.active, queue.reserved) == (1, 0)


@pytest.mark.parametrize(("slots", "gone", "kept"), [(1, 1, 1), (4, 2, 2), (8, 5, 4), (8, 7, 4)])
async def test_at_most_half_of_the_slots_are_reserved_for_those_who_left_last(
    autojump_clock: MockClock, slots: int, gone: int, kept: int
) -> None:
    queue, log = SlotQueue("m", slots), []
    async with trio.open_nursery() as nursery:
        for number in range(gone):
            nursery.start_soon(reserve, queue, log, str(number))
            await wait_all_tasks_blocked()
        assert (queue.reserved, log) == (kept, [str(number) for number in range(gone - kept)])
        queue.give_up_reserved()


async def test_waiting_for_a_reserved_slot_is_not_hopeless(autojump_clock: MockClock) -> None:
    queue = SlotQueue("m", 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reserve, queue, [], "gone")
        await trio.sleep(10)
        started = trio.current_time()
        with pytest.raises(ServerBusy):
            async with queue.slot(1000):
                pytest.fail("the slot is kept")
        assert trio.current_time() - started == pytest.approx(1.0)
        queue.give_up_reserved()
