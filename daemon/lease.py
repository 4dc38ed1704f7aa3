"""A resident model in the hands of a request."""

import logging

from audiocpp.daemon.worker_run import WorkerRun
from audiocpp.daemon.workers import Worker
from audiocpp.engines.tasks import TaskRequest

log = logging.getLogger(__name__)


class Lease:
    """A model held by a request. It stays resident until the lease ends.

    `answered` is set by the holder when the model has answered: it works.
    """

    def __init__(self, model: str, worker: Worker) -> None:
        self._model = model
        self._worker = worker
        self.answered = False

    def open(self, request: TaskRequest) -> WorkerRun:
        """Opens a run. Raises `WorkerDied`."""
        return self._worker.open(self._model, request)

    def kill_worker(self, reason: str) -> None:
        """Ends the worker process: the last way to end a run that ignores its cancellation."""
        log.warning("worker %s is killed: %s", self._worker.name, reason)
        self._worker.kill()
