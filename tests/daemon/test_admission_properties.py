"""What holds for every history of a slot queue: never too many, first come first served, nobody forgotten."""

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from audiocpp.daemon.admission import SlotQueue
from audiocpp.daemon.errors import ServerBusy

visits = st.lists(
    st.tuples(
        st.integers(0, 20),  # arrives after the one before, in tenths of a second
        st.integers(0, 30),  # holds its slot for
        st.sampled_from([0, 500, 1500]),  # waits at most, in milliseconds; 0: for ever
        st.none() | st.integers(0, 25),  # leaves by itself after
    ),
    max_size=25,
)


@settings(deadline=None)
@given(st.integers(1, 4), visits)
def test_any_history_of_visits(slots: int, history: list[tuple[int, int, int, int | None]]) -> None:
    queue = SlotQueue("m", slots)
    served: list[tuple[float, int]] = []
    ended: set[int] = set()
    most = 0

    async def visit(number: int, holds: int, timeout_ms: int, leaves: int | None) -> None:
        nonlocal most
        try:
            with trio.move_on_after(float("inf") if leaves is None else leaves / 10):
                async with queue.slot(timeout_ms):
                    served.append((trio.current_time(), number))
                    most = max(most, queue.active)
                    await trio.sleep(holds / 10)
        except ServerBusy:
            assert timeout_ms > 0
        ended.add(number)

    async def play() -> None:
        async with trio.open_nursery() as nursery:
            for number, (after, holds, timeout_ms, leaves) in enumerate(history):
                await trio.sleep(after / 10)
                nursery.start_soon(visit, number, holds, timeout_ms, leaves)
                await trio.testing.wait_all_tasks_blocked()

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))
    # Slots given in the same moment are taken up in any order: trio runs the woken tasks as it likes.
    order = [number for _, number in sorted(served)]
    assert order == sorted(order), "somebody was overtaken"
    assert most <= slots
    assert ended == set(range(len(history))), "somebody waits for ever"
    assert (queue.active, queue.queued) == (0, 0)
