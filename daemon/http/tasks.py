"""POST /v1/tasks/run and /v1/tasks/stream: any task of any entry, from one JSON document."""

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint, Response

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.body import whole_body
from audiocpp.daemon.http.json_body import convert, parse_object
from audiocpp.daemon.http.reply import json_reply
from audiocpp.daemon.http.sse import Stream, streamed_reply
from audiocpp.daemon.http.task_request import Task, task_of
from audiocpp.daemon.http.task_result import FINAL, StreamEvent, TaskResult, TaskTiming
from audiocpp.daemon.http.task_runs import Performed, perform
from audiocpp.daemon.request_fields import Milliseconds
from audiocpp.engines.tasks import Mode

tasks = Blueprint("tasks", __name__)


class TaskBody(msgspec.Struct, kw_only=True):
    """A task. Without `request` the members of the request object stand beside the others."""

    model: Annotated[str | None, Meta(description="An entry or alias; absent: the only one.")] = None
    request: Annotated[dict[str, Any] | None, Meta(description="The request object.")] = None
    busy_timeout_ms: Annotated[
        Milliseconds | None, Meta(description="Longest wait for a slot; the model's own is the ceiling.")
    ] = None


class TaskStreamBody(TaskBody, kw_only=True):
    """A task whose events are wanted."""

    stream_format: Annotated[
        Literal["sse"] | None, Meta(description="`sse`: events as they come; absent: one JSON document.")
    ] = None


class TaskStreamReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of a stream without `stream_format`."""

    events: list[StreamEvent]
    result: TaskResult


@tasks.post("/v1/tasks/run")
async def run_any_task() -> Response:
    """Runs the task of any entry: JSON in, JSON out."""
    document = parse_object(bytes(await whole_body()))
    body = convert(document, TaskBody)
    task = await _task(document, body, mode="offline")
    done = await perform(task, busy_timeout_ms=body.busy_timeout_ms)
    return json_reply(msgspec.to_builtins(msgspec.structs.replace(done.result, timing=done.timing)))


@tasks.post("/v1/tasks/stream")
async def stream_any_task() -> Response:
    """Runs the task of any entry whose family can stream, and answers with its events and its result."""
    document = parse_object(bytes(await whole_body()))
    if document.get("stream_format") not in (None, "sse"):
        raise InvalidRequest("task stream stream_format must be sse, or absent", param="stream_format")
    body = convert(document, TaskStreamBody)
    task = await _task(document, body, mode="streaming")
    if body.stream_format is not None:
        return await streamed_reply(partial(_stream, task, body.busy_timeout_ms))
    events: list[StreamEvent] = []

    async def gather(event: StreamEvent) -> None:
        events.append(event)

    done = await perform(task, busy_timeout_ms=body.busy_timeout_ms, emit=gather)
    return json_reply(msgspec.to_builtins(TaskStreamReply(events=[*events, FINAL], result=_streamed(done))))


async def _stream(task: Task, busy_timeout_ms: int | None, stream: Stream) -> None:
    async def emit(event: StreamEvent) -> None:
        await stream.emit_event({"type": "task.stream.event", "event": msgspec.to_builtins(event)})

    def opened() -> None:
        """A recording may be silent for long; text that cannot be spoken shows with the first audio."""
        if task.source is not None:
            stream.begin()

    done = await perform(task, busy_timeout_ms=busy_timeout_ms, opened=opened, emit=emit)
    await emit(FINAL)
    await stream.emit_event({"type": "task.stream.done", "result": msgspec.to_builtins(_streamed(done))})


def _streamed(done: Performed) -> TaskResult:
    return msgspec.structs.replace(done.result, timing=TaskTiming(ttft_ms=done.ttft_ms))


async def _task(document: dict[str, Any], body: TaskBody, *, mode: Mode) -> Task:
    entry = backend().services.registry.resolve(body.model or None, task=None, mode=None)
    if mode not in entry.spec.modes:
        raise InvalidRequest(f"model {entry.id!r} does not provide {mode} execution", param="model")
    if body.request is not None:
        return await task_of(entry, body.request, mode=mode, at="request")
    return await task_of(entry, document, mode=mode)
