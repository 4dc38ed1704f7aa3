"""Drives the runs of a worker: resumes their generators, performs their effects, keeps their windows.

One `Driver` per worker. A thread resumes generators (`drive`), others compute (`compute`); both are loops that the
worker starts. Generators only ever advance on the driving thread. Nothing here knows of sockets or processes.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from audiocpp.engines import wire
from audiocpp.engines.active_run import ActiveRun, last_message
from audiocpp.engines.errors import RunCancelled
from audiocpp.engines.family import Background, Completed, Data, Effect, Input, Next, Revoke, Run, Work
from audiocpp.engines.scheduler import Batch, Job, WorkQueue
from audiocpp.engines.tasks import TaskEvent

log = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
IDLE_BEATS = 5
"""Memory that was given back has to be mapped anew: between requests a second apart, that cost a 10 s clip 7 %."""


class Driver:
    """See the module.

    Args:
        send: delivers a reply to the control process. It may block and is called without the lock.
        on_idle: called on the driving thread once no run has been open for `IDLE_BEATS`, and soon after the start.
    """

    def __init__(self, send: Callable[[wire.Reply], None], *, on_idle: Callable[[], None] = lambda: None) -> None:
        self._send = send
        self._on_idle = on_idle
        self._lock = threading.Lock()
        self._runnable = threading.Condition(self._lock)
        self._computable = threading.Condition(self._lock)
        self._ready: deque[ActiveRun] = deque()
        self._runs: dict[int, ActiveRun] = {}
        self._work = WorkQueue()
        self._running: dict[Batch, float] = {}
        self.computing_threads = 0
        self._stopped = False

    # Commands, from the worker's reading thread.

    def open(self, run_id: int, generator: Run) -> None:
        """Starts a run. Its end is one `RunDone` or `RunError`."""
        with self._lock:
            run = self._runs[run_id] = ActiveRun(id=run_id, generator=generator, opened=time.monotonic())
            self._resume(run)

    def put(self, run_id: int, item: Input) -> None:
        """Gives an input to a run. One that has ended is ignored: its last message is already on the way."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            run.inputs.append(item)
            if run.awaits_input:
                self._resume(run)

    def acknowledge(self, run_id: int, size: int) -> None:
        """The control process has taken `size` output bytes of the run."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            run.unacked_bytes -= size
            if run.awaits_window and run.unacked_bytes < wire.OUTPUT_WINDOW_BYTES:
                self._resume(run)

    def cancel(self, run_id: int) -> None:
        """Ends a run: waiting work is dropped, a computation that serves only cancelled runs is stopped."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            run.cancelled = True
            for job in list(run.jobs):
                if self._work.discard(job):
                    del run.jobs[job]
            for batch in self._running:
                for job in batch.jobs:
                    if job in run.jobs:
                        batch.cancel(job)
            self._end_cancelled(run)

    def stop(self) -> None:
        """Ends both loops as soon as the computation in progress allows; running graphs are terminated."""
        with self._lock:
            self._stopped = True
            for batch in self._running:
                batch.control.cancel()
            self._runnable.notify_all()
            self._computable.notify_all()

    @property
    def open_runs(self) -> int:
        return len(self._runs)

    @property
    def waiting_work(self) -> int:
        """Jobs that wait for a computing thread."""
        return len(self._work)

    @property
    def paused_runs(self) -> int:
        """Runs that wait until their output is taken."""
        with self._lock:
            return sum(run.awaits_window and not run.queued for run in self._runs.values())

    # The driving thread.

    def drive(self) -> None:
        """Resumes runs until `stop`, and beats about once a second."""
        beat_at = time.monotonic() + HEARTBEAT_S
        idle_beats = IDLE_BEATS - 1  # loading leaves memory to give back too
        while True:
            run = self._next_ready(beat_at)
            if self._stopped:
                return
            if run is not None:
                idle_beats = 0
                self._step(run)
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + HEARTBEAT_S
                self._send(self._heartbeat())
                idle_beats = 0 if self._runs else idle_beats + 1
                if idle_beats == IDLE_BEATS:
                    self._on_idle()

    def _next_ready(self, beat_at: float) -> ActiveRun | None:
        with self._lock:
            if not self._ready and not self._stopped:
                self._runnable.wait(max(beat_at - time.monotonic(), 0))
            if not self._ready:
                return None
            run = self._ready.popleft()
            run.queued = run.awaits_window = False
            return run

    def _heartbeat(self) -> wire.Heartbeat:
        with self._lock:
            now = time.monotonic()
            oldest = max((now - since for since in self._running.values()), default=0.0)
            return wire.Heartbeat(open_runs=len(self._runs), waiting_work=len(self._work), oldest_work_s=oldest)

    def _step(self, run: ActiveRun) -> None:
        if run.id not in self._runs:
            return  # it was cancelled, and queued by that, while it came to its end
        if run.awaits_input:
            self._take_input(run)
        try:
            yielded = self._advance(run)
        except StopIteration:
            self._close(run, None)
        except Exception as error:  # noqa: BLE001 - answered to the client, below
            self._close(run, error)
        else:
            self._perform(run, yielded)

    def _take_input(self, run: ActiveRun) -> None:
        """Bytes that have piled up are taken together: a run that is behind catches up at a lower price."""
        with self._lock:
            run.awaits_input = False
            run.answer = run.take_input()
        if isinstance(run.answer, Data):
            self._send(wire.Consumed(run.id, len(run.answer.data)))

    def _advance(self, run: ActiveRun) -> TaskEvent | Effect:
        if run.cancelled:
            run.generator.close()
            raise RunCancelled("the run was cancelled")
        answer, failure, run.answer, run.failure = run.answer, run.failure, None, None
        return run.generator.throw(failure) if failure is not None else run.generator.send(answer)

    def _perform(self, run: ActiveRun, yielded: TaskEvent | Effect) -> None:
        match yielded:
            case Work():
                self._submit(run, yielded, tag=None)
            case Background(work, tag):
                self._submit(run, work, tag=tag)
            case Revoke(tag):
                self._revoke(run, tag)
            case Next():
                self._await_input(run)
            case _:
                self._emit(run, yielded)

    def _submit(self, run: ActiveRun, work: Work, *, tag: str | None) -> None:
        def finish(results: Sequence[Any] | None, error: BaseException | None, seconds: float) -> None:
            self._finish_job(run, job, results, error, seconds)

        job = Job(work, finish)
        with self._lock:
            run.live |= work.lane.live
            run.jobs[job] = tag or ""
            self._work.add(job)
            self._computable.notify()
            if tag is not None or run.cancelled:
                self._resume(run)

    def _revoke(self, run: ActiveRun, tag: str) -> None:
        with self._lock:
            waiting = [job for job, job_tag in run.jobs.items() if job_tag == tag and self._work.discard(job)]
            for job in waiting:
                del run.jobs[job]
            run.answer = bool(waiting)
            self._resume(run)

    def _await_input(self, run: ActiveRun) -> None:
        with self._lock:
            run.awaits_input = True
            if run.inputs or run.cancelled:
                self._resume(run)

    def _emit(self, run: ActiveRun, event: TaskEvent) -> None:
        size = wire.output_bytes(event)
        with self._lock:
            run.unacked_bytes += size
            run.awaits_window = run.unacked_bytes >= wire.OUTPUT_WINDOW_BYTES
        self._send(wire.Event(run.id, event))
        with self._lock:
            if not run.awaits_window or run.cancelled:
                self._resume(run)

    def _close(self, run: ActiveRun, error: BaseException | None) -> None:
        with self._lock:
            for job in list(run.jobs):
                self._work.discard(job)
            del self._runs[run.id]
            if run.live:
                self._computable.notify_all()  # patient work may have waited because of it
        self._send(last_message(run, error))

    # The computing threads.

    def compute(self) -> None:
        """Computes batches until `stop`."""
        with self._lock:
            self.computing_threads += 1
        while (batch := self._next_batch()) is not None:
            started = time.monotonic()
            try:
                batch.control.check()
                parts = batch.split(batch.jobs[0].work.function(batch.rows, batch.control))
            except BaseException as error:  # noqa: BLE001 - handed to the runs, whose clients are answered
                self._fail_batch(batch, error, time.monotonic() - started)
            else:
                self._finish_batch(batch, parts, None, time.monotonic() - started)

    def _next_batch(self) -> Batch | None:
        with self._lock:
            while not self._stopped:
                batch = self._work.take(patient=self._has_room_for_patient_work())
                if batch is not None:
                    self._running[batch] = time.monotonic()
                    return batch
                self._computable.wait()
            return None

    def _has_room_for_patient_work(self) -> bool:
        """While a live run is open, one thread is left to what cannot wait: a computation is not interrupted."""
        patient = sum(batch.lane.patient for batch in self._running)
        if not any(run.live for run in self._runs.values()):
            return True
        return patient < max(self.computing_threads - 1, 1)

    def _fail_batch(self, batch: Batch, error: BaseException, seconds: float) -> None:
        """One bad row must not cost the runs that it was merged with: their jobs are computed again, each alone."""
        if len(batch.jobs) == 1 or batch.control.cancelled:
            self._finish_batch(batch, [()] * len(batch.jobs), error, seconds)
            return
        with self._lock:
            del self._running[batch]
            for job in batch.jobs:
                self._work.add_alone(job)

    def _finish_batch(
        self, batch: Batch, parts: Sequence[Sequence[Any]], error: BaseException | None, seconds: float
    ) -> None:
        rows = max(len(batch.rows), 1)
        with self._lock:
            del self._running[batch]
            for job, results in zip(batch.jobs, parts, strict=True):
                job.finish(results, error, seconds * len(job.work.rows) / rows)

    def _finish_job(
        self, run: ActiveRun, job: Job, results: Sequence[Any] | None, error: BaseException | None, seconds: float
    ) -> None:
        tag = run.jobs.pop(job)
        run.compute_s += seconds
        if run.id not in self._runs:
            return
        if run.cancelled:
            self._end_cancelled(run)
        elif tag:
            run.inputs.append(Completed(tag, results or (), error))
            if run.awaits_input:
                self._resume(run)
        else:
            run.answer, run.failure = results, error
            self._resume(run)

    # With the lock held.

    def _resume(self, run: ActiveRun) -> None:
        if not run.queued:
            run.queued = True
            self._ready.append(run)
            self._runnable.notify()

    def _end_cancelled(self, run: ActiveRun) -> None:
        """Lets the driving thread close a cancelled run once none of its work is being computed."""
        if not run.jobs:
            self._resume(run)
