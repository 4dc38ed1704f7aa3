"""Runs are driven by threads; each test waits for messages, never for time."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from audiocpp.engines import wire
from audiocpp.engines.active_run import JOINED_BYTES
from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import NEXT, Background, Completed, Data, End, Finalize, Lane, Revoke, Run, Work
from audiocpp.engines.run_driver import Driver
from audiocpp.engines.tasks import AudioChunk, Finalized, TextDelta

LIMIT_S = 10.0


class Desk:
    """A driver whose messages are read here."""

    def __init__(self, compute_threads: int = 1) -> None:
        self.messages: queue.Queue[wire.Reply] = queue.Queue()
        self.driver = Driver(self.messages.put)
        self.threads = [threading.Thread(target=self.driver.drive)]
        self.threads += [threading.Thread(target=self.driver.compute) for _ in range(compute_threads)]
        for thread in self.threads:
            thread.start()

    def next(self) -> wire.Reply:
        """The next message that is no heartbeat."""
        while True:
            message = self.messages.get(timeout=LIMIT_S)
            if not isinstance(message, wire.Heartbeat):
                return message

    def until(self, kind: type[wire.Reply]) -> Any:
        while not isinstance(message := self.next(), kind):
            pass
        return message

    def close(self) -> None:
        self.driver.stop()
        for thread in self.threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive()


@pytest.fixture
def desk() -> Iterator[Desk]:
    with opened_desk() as opened:
        yield opened


@contextmanager
def opened_desk(compute_threads: int = 1) -> Iterator[Desk]:
    opened = Desk(compute_threads)
    try:
        yield opened
    finally:
        opened.close()


class Gate:
    """A computation that says when it has begun and goes on when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let = threading.Event()
        self.calls: list[list[Any]] = []

    def compute(self, rows: Sequence[Any], control: RunControl) -> list[Any]:
        self.calls.append(list(rows))
        self.begun.set()
        with control.terminable(self.let.set):
            assert self.let.wait(LIMIT_S)
        control.check()
        return list(rows)


def upper(rows: Sequence[str], control: RunControl) -> list[str]:
    return [row.upper() for row in rows]


def test_a_run_gets_its_inputs_and_the_results_of_its_work(desk: Desk) -> None:
    def run() -> Run:
        while isinstance(item := (yield NEXT), Data):
            (text,) = yield Work(upper, [item.data.decode()])
            yield TextDelta(text)

    desk.driver.open(1, run())
    desk.driver.put(1, Data(b"ab"))
    assert desk.next() == wire.Consumed(1, 2)
    assert desk.next() == wire.Event(1, TextDelta("AB"))
    desk.driver.put(1, Data(b"c"))
    assert desk.next() == wire.Consumed(1, 1)
    assert desk.next() == wire.Event(1, TextDelta("C"))
    desk.driver.put(1, End())
    assert isinstance(desk.next(), wire.RunDone)


def test_inputs_that_come_before_they_are_asked_for_are_kept_in_order(desk: Desk) -> None:
    gate = Gate()

    def run() -> Run:
        yield Work(gate.compute, [0])
        while not isinstance(item := (yield NEXT), End):
            yield Finalized(item.id)

    desk.driver.open(1, run())
    for name in "abc":
        desk.driver.put(1, Finalize(name))
    desk.driver.put(1, End())
    gate.let.set()
    assert [desk.next() for _ in range(3)] == [wire.Event(1, Finalized(name)) for name in "abc"]


def test_bytes_that_piled_up_are_taken_together(desk: Desk) -> None:
    gate = Gate()
    taken: list[object] = []

    def run() -> Run:
        yield Work(gate.compute, [0])
        while not isinstance(item := (yield NEXT), End):
            taken.append(item)

    desk.driver.open(1, run())
    assert gate.begun.wait(LIMIT_S)
    large = Data(bytes(JOINED_BYTES))
    for item in (Data(b"ab"), Data(b"c"), Finalize("turn"), Data(b"d"), large, Data(b"e"), End()):
        desk.driver.put(1, item)
    gate.let.set()
    consumed = []
    while not isinstance(message := desk.next(), wire.RunDone):
        consumed.append(message)
    assert taken == [Data(b"abc"), Finalize("turn"), Data(b"d"), large, Data(b"e")]
    assert consumed == [wire.Consumed(1, size) for size in (3, 1, JOINED_BYTES, 1)]


def test_background_work_arrives_as_an_input(desk: Desk) -> None:
    def run() -> Run:
        yield Background(Work(upper, ["x"]), tag="later")
        yield TextDelta("first")
        match (yield NEXT):
            case Completed(tag, results, None):
                yield TextDelta(f"{tag} {results[0]}")

    desk.driver.open(1, run())
    assert desk.next() == wire.Event(1, TextDelta("first"))
    assert desk.next() == wire.Event(1, TextDelta("later X"))


def test_revoking_drops_work_that_waits_and_not_work_that_runs(desk: Desk) -> None:
    gate = Gate()

    def run() -> Run:
        yield Background(Work(gate.compute, [1]), tag="running")
        yield Background(Work(gate.compute, [2]), tag="waiting")
        assert gate.begun.wait(LIMIT_S)
        running = yield Revoke("running")
        waiting = yield Revoke("waiting")
        yield TextDelta(f"{running} {waiting}")

    desk.driver.open(1, run())
    assert desk.next() == wire.Event(1, TextDelta("False True"))
    gate.let.set()
    desk.until(wire.RunDone)
    assert gate.calls == [[1]]


def test_rows_of_two_runs_are_computed_in_one_call_and_split_again(desk: Desk) -> None:
    gate, blocker = Gate(), Gate()

    def run(row: str) -> Run:
        (text,) = yield Work(gate.compute, [row], max_rows=2)
        yield TextDelta(text)

    def blocking() -> Run:
        yield Work(blocker.compute, [0])

    desk.driver.open(1, blocking())
    assert blocker.begun.wait(LIMIT_S)
    desk.driver.open(2, run("b"))
    desk.driver.open(3, run("c"))
    wait_until(lambda: desk.driver.waiting_work == 2)
    gate.let.set()
    blocker.let.set()
    events = [message for message in (desk.next() for _ in range(5)) if isinstance(message, wire.Event)]
    assert sorted(events, key=lambda event: event.run) == [
        wire.Event(2, TextDelta("b")),
        wire.Event(3, TextDelta("c")),
    ]
    assert gate.calls == [["b", "c"]]


def test_a_bad_row_fails_its_own_run_and_not_the_one_it_was_merged_with(desk: Desk) -> None:
    blocker = Gate()

    def strict(rows: Sequence[str], control: RunControl) -> list[str]:
        if "bad" in rows:
            raise InvalidInput("bad row", param="input")
        return list(rows)

    def run(row: str) -> Run:
        (text,) = yield Work(strict, [row], max_rows=2)
        yield TextDelta(text)

    def blocking() -> Run:
        yield Work(blocker.compute, [0])

    desk.driver.open(1, blocking())
    assert blocker.begun.wait(LIMIT_S)
    desk.driver.open(2, run("bad"))
    desk.driver.open(3, run("good"))
    wait_until(lambda: desk.driver.waiting_work == 2)
    blocker.let.set()
    messages = [desk.next() for _ in range(4)]
    assert wire.RunError(run=2, code="invalid_request", message="bad row", param="input") in messages
    assert wire.Event(3, TextDelta("good")) in messages


def test_cancelling_a_waiting_run_closes_its_generator(desk: Desk) -> None:
    closed = threading.Event()

    def run() -> Run:
        try:
            yield TextDelta("started")
            yield NEXT
        finally:
            closed.set()

    desk.driver.open(1, run())
    desk.next()
    desk.driver.cancel(1)
    assert desk.next().code == "cancelled"
    assert closed.is_set()


def test_cancelling_stops_the_computation_in_progress(desk: Desk) -> None:
    gate = Gate()

    def run() -> Run:
        yield Work(gate.compute, [1])

    desk.driver.open(1, run())
    assert gate.begun.wait(LIMIT_S)
    desk.driver.cancel(1)
    assert desk.next().code == "cancelled"
    assert gate.let.is_set()


def test_a_run_pauses_at_a_full_output_window_and_goes_on_when_it_is_taken(desk: Desk) -> None:
    piece = AudioChunk(pcm=bytes(wire.OUTPUT_WINDOW_BYTES // 2), sample_rate=16000)
    produced: list[int] = []

    def run() -> Run:
        for number in range(4):
            produced.append(number)
            yield piece

    desk.driver.open(1, run())
    desk.next()
    desk.next()
    wait_until(lambda: desk.driver.paused_runs == 1)
    assert produced == [0, 1]
    desk.driver.acknowledge(1, len(piece.pcm))
    desk.next()
    wait_until(lambda: desk.driver.paused_runs == 1)
    assert produced == [0, 1, 2]
    desk.driver.acknowledge(1, 3 * len(piece.pcm))
    desk.until(wire.RunDone)
    assert produced == [0, 1, 2, 3]


def test_a_cancelled_run_that_is_paused_at_its_window_ends(desk: Desk) -> None:
    def run() -> Run:
        while True:
            yield AudioChunk(pcm=bytes(wire.OUTPUT_WINDOW_BYTES), sample_rate=16000)

    desk.driver.open(1, run())
    desk.next()
    desk.driver.cancel(1)
    assert desk.until(wire.RunError).code == "cancelled"


def test_an_unexpected_exception_is_answered_and_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    def run() -> Run:
        yield NEXT
        raise KeyError("nothing")

    desk.driver.open(1, run())
    desk.driver.put(1, End())
    message = desk.next()
    assert isinstance(message, wire.RunError)
    assert message.code == "internal"
    assert "KeyError" in message.message
    assert "a run failed" in caplog.text


def test_memory_exhausted_by_a_run_has_its_own_code(desk: Desk) -> None:
    def hungry(rows: Sequence[int], control: RunControl) -> list[int]:
        raise MemoryError

    def run() -> Run:
        yield Work(hungry, [1])

    desk.driver.open(1, run())
    assert desk.next().code == "insufficient_memory"


def test_a_run_that_is_cancelled_while_it_ends_ends_once_and_the_next_is_served(desk: Desk) -> None:
    def ends() -> Run:
        desk.driver.cancel(1)  # as a client does that leaves at this very moment
        yield from ()

    def next_run() -> Run:
        yield TextDelta("served")

    desk.driver.open(1, ends())
    assert isinstance(desk.next(), wire.RunDone)
    desk.driver.open(2, next_run())
    assert desk.next() == wire.Event(2, TextDelta("served"))
    assert desk.until(wire.RunDone).run == 2


def test_inputs_for_a_run_that_has_ended_are_ignored(desk: Desk) -> None:
    def run() -> Run:
        yield TextDelta("x")

    desk.driver.open(1, run())
    desk.until(wire.RunDone)
    desk.driver.put(1, Data(b"late"))
    desk.driver.cancel(1)
    desk.driver.acknowledge(1, 5)
    assert desk.driver.open_runs == 0


def test_two_computing_threads_work_side_by_side() -> None:
    first, second = Gate(), Gate()

    def run(gate: Gate) -> Run:
        yield Work(gate.compute, [1])

    with opened_desk(compute_threads=2) as desk:
        desk.driver.open(1, run(first))
        desk.driver.open(2, run(second))
        assert first.begun.wait(LIMIT_S)
        assert second.begun.wait(LIMIT_S)
        first.let.set()
        second.let.set()
        desk.until(wire.RunDone)
        desk.until(wire.RunDone)


def test_one_thread_is_left_to_what_cannot_wait_while_a_live_run_is_open() -> None:
    guesses, final = (Gate(), Gate()), Gate()

    def run(gate: Gate, lane: Lane) -> Run:
        yield Work(gate.compute, [1], lane)

    with opened_desk(compute_threads=2) as desk:
        wait_until(lambda: desk.driver.computing_threads == 2)
        desk.driver.open(1, run(guesses[0], Lane.LIVE_PARTIAL))
        assert guesses[0].begun.wait(LIMIT_S)
        desk.driver.open(2, run(guesses[1], Lane.LIVE_PARTIAL))
        wait_until(lambda: desk.driver.waiting_work == 1)
        desk.driver.open(3, run(final, Lane.LIVE_FINAL))
        assert final.begun.wait(LIMIT_S)
        assert not guesses[1].begun.is_set()
        for gate in (final, *guesses):
            gate.let.set()
            desk.until(wire.RunDone)
        assert guesses[1].begun.is_set()


def test_files_get_the_thread_back_when_the_last_live_run_ends() -> None:
    files, live = (Gate(), Gate()), Gate()

    def run(gate: Gate, lane: Lane) -> Run:
        yield Work(gate.compute, [1], lane)

    with opened_desk(compute_threads=2) as desk:
        wait_until(lambda: desk.driver.computing_threads == 2)
        desk.driver.open(1, run(live, Lane.LIVE_TRACK))
        assert live.begun.wait(LIMIT_S)
        for number, gate in enumerate(files, start=2):
            desk.driver.open(number, run(gate, Lane.BATCH))
        assert files[0].begun.wait(LIMIT_S)
        live.let.set()
        assert files[1].begun.wait(LIMIT_S)
        for gate in files:
            gate.let.set()
        for _ in range(3):
            desk.until(wire.RunDone)


def wait_until(condition: Callable[[], bool]) -> None:
    """Polls a fact that other threads make true and that no message tells."""
    limit = threading.Event()
    timer = threading.Timer(LIMIT_S, limit.set)
    timer.start()
    try:
        while not condition():
            assert not limit.is_set()
    finally:
        timer.cancel()
