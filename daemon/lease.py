"""A resident model in the hands of a request."""

from collections.abc import Callable

from audiocpp.daemon.errors import WorkerDied
from audiocpp.daemon.worker_run import WorkerRun
from audiocpp.daemon.workers import Worker
from audiocpp.engines.tasks import TaskRequest


class Lease:
    """A model held by a request. It stays resident until the lease ends.

    `answered` is set by the holder when the model has answered: it works. `condemn` ends a worker process and takes its
    models out of use at once, before the process is gone.
    """

    def __init__(self, model: str, worker: Worker, *, condemn: Callable[[Worker, WorkerDied], None]) -> None:
        self._model = model
        self._worker = worker
        self._condemn = condemn
        self.answered = False

    def open(self, request: TaskRequest) -> WorkerRun:
        """Opens a run. Raises `WorkerDied`."""
        return self._worker.open(self._model, request)

    def kill_worker(self, reason: str) -> None:
        """Ends the worker process: the last way to end a run that ignores its cancellation."""
        self._condemn(self._worker, WorkerDied(f"the worker process of {self._worker.name} was ended: {reason}"))
