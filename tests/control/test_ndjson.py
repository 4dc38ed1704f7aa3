import json
from typing import Any

import trio
from trio.testing import MockClock

from audiocpp.control.ndjson import Event, EventBody, Report


async def received(body: EventBody) -> list[Any]:
    async with body as lines:
        return [json.loads(line) async for line in lines]


async def test_events_come_in_order_and_the_result_last() -> None:
    async def work(report: Report) -> Event:
        report({"event": "progress", "n": 1})
        await trio.lowlevel.checkpoint()
        report({"event": "progress", "n": 2})
        return {"event": "done"}

    assert [event.get("n") for event in await received(EventBody(work))] == [1, 2, None]


async def test_pauses_are_filled_with_signs_of_life(autojump_clock: MockClock) -> None:
    async def work(report: Report) -> Event:
        await trio.sleep(25)
        return {"event": "done"}

    events = [event["event"] for event in await received(EventBody(work, heartbeat_s=10))]
    assert events == ["alive", "alive", "done"]


async def test_a_flood_of_progress_loses_the_middle_but_never_the_end() -> None:
    async def work(report: Report) -> Event:
        for n in range(10_000):
            report({"event": "progress", "n": n})
        return {"event": "done"}

    events = await received(EventBody(work))
    assert events[0]["n"] == 0
    assert events[-1] == {"event": "done"}
    assert len(events) < 1000


async def test_the_work_is_cancelled_when_the_reader_leaves() -> None:
    cancelled = trio.Event()

    async def work(report: Report) -> Event:
        report({"event": "progress"})
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError("unreachable")

    with trio.fail_after(2):
        async with EventBody(work) as lines:
            async for _ in lines:
                break
        await cancelled.wait()
