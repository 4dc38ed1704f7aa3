"""POST /v1/tasks/batch and /v1/batches/transcriptions: many inputs for one model, answered as they are done.

Every family batches here: the items are runs of their own, which the scheduler of the model's worker merges where the
family says that they can share a graph run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import trio
from msgspec import Meta
from quart import Blueprint, Response

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.batch_runs import Opened, run_side_by_side
from audiocpp.daemon.http.json_body import read_json
from audiocpp.daemon.http.multipart import is_multipart, read_form
from audiocpp.daemon.http.sse import Stream, streamed_reply
from audiocpp.daemon.http.task_request import Task, task_of
from audiocpp.daemon.http.task_result import TaskTiming, audio_timing
from audiocpp.daemon.http.task_runs import Performed, check_recording, perform
from audiocpp.daemon.http.transcript_details import details_of
from audiocpp.daemon.http.transcription_request import detailed_transcription_of, form_body, form_recordings
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.request_fields import Milliseconds

batches = Blueprint("batches", __name__)

MAX_REQUESTS = 1024
"""All are checked before the first begins, and hold what they brought along until the last is done."""


class TaskBatchBody(msgspec.Struct, kw_only=True):
    """Several request objects for one model."""

    model: Annotated[str | None, Meta(description="An offline entry or alias; absent: the only one.")] = None
    requests: Annotated[
        list[dict[str, Any]], Meta(min_length=1, max_length=MAX_REQUESTS, description="The request objects.")
    ]
    busy_timeout_ms: Annotated[
        Milliseconds | None, Meta(description="Longest wait for the first slot; the model's own is the ceiling.")
    ] = None


@batches.post("/v1/tasks/batch")
async def run_batch() -> Response:
    """Runs many requests on one model, side by side in its slots; each answers when it is done."""
    body = await read_json(TaskBatchBody)
    entry = _offline(backend().services.registry.resolve(body.model or None, task=None, mode="offline"))
    tasks = [await task_of(entry, request, at=f"requests[{index}]") for index, request in enumerate(body.requests)]

    def result(index: int, done: Performed) -> Mapping[str, Any]:
        return {"type": "task.batch.result", "index": index, "result": msgspec.to_builtins(done.result)}

    batch = Batch(tasks, result, item="requests", end="task.batch.done", busy_timeout_ms=body.busy_timeout_ms)
    return await streamed_reply(batch.run, buffered_pieces=0)


@batches.post("/v1/batches/transcriptions")
async def transcribe_batch() -> Response:
    """Turns many recordings into text, side by side in the model's slots; each answers when it is done."""
    if not is_multipart():
        raise InvalidRequest("the body must be multipart/form-data", param="Content-Type")
    form = await read_form(files=("file",), repeated=True)
    files = form_recordings(form)
    wanted = detailed_transcription_of(form_body(form))
    entry = _offline(wanted.entry)
    tasks = [
        Task(entry=entry, request=wanted.request, source=file.source, source_param=f"file[{index}]")
        for index, file in enumerate(files)
    ]

    def result(index: int, done: Performed) -> Mapping[str, Any]:
        about = {"type": "batch.transcription.result", "index": index, "filename": files[index].filename}
        return {**about, **msgspec.to_builtins(details_of(done, timed=False))}

    end, timeout_ms = "batch.transcription.done", wanted.busy_timeout_ms
    batch = Batch(tasks, result, item="file", end=end, busy_timeout_ms=timeout_ms)
    return await streamed_reply(batch.run, buffered_pieces=0)


def _offline(entry: ModelEntry) -> ModelEntry:
    if entry.mode != "offline":
        raise InvalidRequest(f"model {entry.id!r} is a {entry.mode} entry; a batch needs an offline one", param="model")
    return entry


@dataclass(slots=True)
class Batch:
    """Tasks of one entry.

    Args:
        result: index and result -> the event.
        item: what errors call a task, with its index.
        end: the type of the last event.
    """

    tasks: Sequence[Task]
    result: Callable[[int, Performed], Mapping[str, Any]]
    item: str
    end: str
    busy_timeout_ms: int | None
    _began: float = 0.0
    _recorded_ms: float = 0.0

    async def run(self, stream: Stream) -> None:
        """Emits all events. A recording that cannot be read is refused before any is worked on."""
        for task in self.tasks:
            await check_recording(task)
        slots = self.tasks[0].entry.slots
        await run_side_by_side(self._do, count=len(self.tasks), slots=slots, stream=stream, item=self.item)
        await stream.emit_event(
            {"type": self.end, "result_count": len(self.tasks), "timing": msgspec.to_builtins(self._timing())}
        )

    async def _do(self, index: int, opened: Opened) -> Mapping[str, Any]:
        def begin() -> None:
            self._began = self._began or trio.current_time()
            opened()

        # The others wait among other requests, as long as the model allows: the batch has begun.
        timeout_ms = self.busy_timeout_ms if index == 0 else None
        done = await perform(self.tasks[index], busy_timeout_ms=timeout_ms, opened=begin)
        self._recorded_ms += done.recording_ms or 0.0
        return self.result(index, done)

    def _timing(self) -> TaskTiming:
        """From the first slot to the last result, and the length of all recordings when every task has one."""
        wall_ms = (trio.current_time() - self._began) * 1e3
        if any(task.source is None for task in self.tasks):
            return TaskTiming(wall_ms=wall_ms)
        return audio_timing(wall_ms, self._recorded_ms)
