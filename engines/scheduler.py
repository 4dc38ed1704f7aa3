"""Decides which waiting computation of a worker runs next, and merges rows that can share a graph run.

Pure bookkeeping under the caller's lock: no threads and no model code here.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.family import Lane, Work


@dataclass(slots=True, eq=False)
class Job:
    """A `Work` of one run, waiting or running.

    `finish` is called once, on a compute thread, with the results of this job's rows or with the error.
    """

    work: Work
    finish: Callable[[Sequence[Any] | None, BaseException | None, float], None]
    cancelled: bool = False
    alone: bool = False


@dataclass(slots=True, eq=False)
class Batch:
    """Jobs computed by one call. It is stopped when all its jobs are cancelled, not before."""

    jobs: list[Job]
    control: RunControl = field(default_factory=RunControl)

    @property
    def lane(self) -> Lane:
        return self.jobs[0].work.lane

    @property
    def rows(self) -> list[Any]:
        return [row for job in self.jobs for row in job.work.rows]

    def cancel(self, job: Job) -> None:
        job.cancelled = True
        if all(other.cancelled for other in self.jobs):
            self.control.cancel()

    def split(self, results: Sequence[Any]) -> list[Sequence[Any]]:
        """The results of each job's rows. Raises ValueError when the function returned another number of rows."""
        if len(results) != sum(len(job.work.rows) for job in self.jobs):
            raise ValueError(f"{len(results)} results for {len(self.rows)} rows")
        parts, start = [], 0
        for job in self.jobs:
            parts.append(results[start : start + len(job.work.rows)])
            start += len(job.work.rows)
        return parts


class WorkQueue:
    """Waiting jobs by lane, the most urgent lane first, first in first out within one."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[Job]] = {lane: deque() for lane in Lane}

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def add(self, job: Job) -> None:
        self._lanes[job.work.lane].append(job)

    def add_alone(self, job: Job) -> None:
        """Puts a job back, ahead of its lane, not to be merged again."""
        job.alone = True
        self._lanes[job.work.lane].appendleft(job)

    def discard(self, job: Job) -> bool:
        """Takes a waiting job out; False when it is not waiting any more."""
        lane = self._lanes[job.work.lane]
        if job not in lane:
            return False
        lane.remove(job)
        return True

    def take(self, *, patient: bool = True) -> Batch | None:
        """The next batch: the oldest job of the most urgent lane and all younger ones of it that fit the same call.
        Without `patient`, only of lanes that are not.
        """
        for lane, jobs in self._lanes.items():
            if jobs and (patient or not lane.patient):
                return Batch(_take_mergeable(jobs))
        return None


def _take_mergeable(lane: deque[Job]) -> list[Job]:
    first = lane.popleft()
    jobs, room = [first], 0 if first.alone else first.work.max_rows - len(first.work.rows)
    for job in list(lane):
        if room <= 0:
            break
        if job.work.function == first.work.function and len(job.work.rows) <= room and not job.alone:
            lane.remove(job)
            jobs.append(job)
            room -= len(job.work.rows)
    return jobs
