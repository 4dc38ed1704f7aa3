"""Which work runs next and what is merged with it."""

from collections.abc import Sequence
from typing import Any

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.family import Lane, Work
from audiocpp.engines.scheduler import Batch, Job, WorkQueue


def double(rows: Sequence[int], control: RunControl) -> list[int]:
    return [2 * row for row in rows]


def triple(rows: Sequence[int], control: RunControl) -> list[int]:
    return [3 * row for row in rows]


def job(*rows: int, function: Any = double, lane: Lane = Lane.BATCH, max_rows: int = 4) -> Job:
    return Job(Work(function, rows, lane, max_rows), finish=lambda results, error, seconds: None)


def queue_of(*jobs: Job) -> WorkQueue:
    queue = WorkQueue()
    for item in jobs:
        queue.add(item)
    return queue


def taken(queue: WorkQueue) -> list[list[Job]]:
    batches = []
    while (batch := queue.take()) is not None:
        batches.append(batch.jobs)
    return batches


def test_the_most_urgent_lane_goes_first_whatever_came_first() -> None:
    offline, partial, final, track = (
        job(1, lane=lane) for lane in (Lane.BATCH, Lane.LIVE_PARTIAL, Lane.LIVE_FINAL, Lane.LIVE_TRACK)
    )
    assert taken(queue_of(offline, partial, final, track)) == [[track], [final], [partial], [offline]]


def test_jobs_of_one_lane_keep_their_order() -> None:
    first, second = job(1, max_rows=1), job(2, max_rows=1)
    assert taken(queue_of(first, second)) == [[first], [second]]


def test_rows_of_the_same_function_share_a_call_up_to_its_limit() -> None:
    first, second, third = job(1, 2), job(3), job(4, 5)
    assert taken(queue_of(first, second, third)) == [[first, second], [third]]


def test_a_job_that_does_not_fit_is_passed_over_for_one_that_does() -> None:
    first, large, small = job(1, 2, 3), job(4, 5), job(6)
    assert taken(queue_of(first, large, small)) == [[first, small], [large]]


def test_other_functions_and_other_lanes_are_not_merged() -> None:
    first, other, live = job(1), job(2, function=triple), job(3, lane=Lane.LIVE_FINAL)
    assert taken(queue_of(first, other, live)) == [[live], [first], [other]]


def test_a_job_put_back_alone_is_taken_next_and_alone() -> None:
    waiting, returned = job(1), job(2)
    queue = queue_of(waiting)
    queue.add_alone(returned)
    assert taken(queue) == [[returned], [waiting]]


def test_a_discarded_job_is_not_taken_and_discarding_it_again_says_so() -> None:
    item = job(1)
    queue = queue_of(item)
    assert queue.discard(item)
    assert not queue.discard(item)
    assert queue.take() is None


def test_results_are_split_among_the_jobs_in_order() -> None:
    batch = Batch([job(1, 2), job(3)])
    assert batch.split(double(batch.rows, batch.control)) == [[2, 4], [6]]


def test_a_batch_is_stopped_only_when_all_its_jobs_are_cancelled() -> None:
    first, second = job(1), job(2)
    batch = Batch([first, second])
    batch.cancel(first)
    assert not batch.control.cancelled
    batch.cancel(second)
    assert batch.control.cancelled
