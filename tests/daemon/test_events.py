"""The daemon's event log: bounded, and followed without being held up."""

import trio
import trio.testing

from audiocpp.daemon.events import EventLog


def test_events_are_numbered_from_one_and_carry_their_details() -> None:
    log = EventLog()
    log.publish("load", model="a", seconds=0.5)
    log.publish("unload", model="a")
    assert [(e.seq, e.kind, e.model, e.details) for e in log.since(0)] == [
        (1, "load", "a", {"seconds": 0.5}),
        (2, "unload", "a", {}),
    ]
    assert log.last_seq == 2


def test_only_the_newest_are_kept() -> None:
    log = EventLog(capacity=2)
    for _ in range(5):
        log.publish("tick")
    assert [event.seq for event in log.since(0)] == [4, 5]


async def test_follower_waits_for_what_comes() -> None:
    log = EventLog()
    log.publish("past")
    seen: list[str] = []

    async def follow() -> None:
        seq = 0
        while len(seen) < 3:
            for event in await log.wait_since(seq):
                seq = event.seq
                seen.append(event.kind)

    with trio.fail_after(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await trio.testing.wait_all_tasks_blocked()
            assert seen == ["past"]
            log.publish("first")
            log.publish("second")
    assert seen == ["past", "first", "second"]


async def test_follower_that_falls_behind_goes_on_with_the_newest() -> None:
    log = EventLog(capacity=2)
    for _ in range(5):
        log.publish("burst")
    with trio.fail_after(2):
        assert [event.seq for event in await log.wait_since(1)] == [4, 5]


async def test_waiting_for_events_far_ahead_can_be_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    log = EventLog()
    log.publish("now")
    with trio.move_on_after(60) as scope:
        await log.wait_since(7)
    assert scope.cancelled_caught
