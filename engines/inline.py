"""Runs a `Run` in the calling thread: the bare engine, without process, queue or wire. For tests and benchmarks."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.family import Background, Completed, End, Input, Next, Revoke, Run, Work
from audiocpp.engines.tasks import TaskEvent


def run_inline(run: Run, inputs: Iterable[Input] = (), *, control: RunControl | None = None) -> Iterator[TaskEvent]:
    """Yields the events of `run`, feeding it `inputs` and then `End`.

    Background work is computed when the run next waits for an input, so every partial result is produced.
    """
    control = control or RunControl()
    source = iter(inputs)
    background: deque[Background] = deque()
    answer: Any = None
    while True:
        try:
            yielded = run.send(answer)
        except StopIteration:
            return
        answer = None
        match yielded:
            case Work():
                answer = yielded.function(yielded.rows, control)
            case Background():
                background.append(yielded)
            case Revoke(tag):
                kept = deque(item for item in background if item.tag != tag)
                answer, background = len(kept) < len(background), kept
            case Next():
                answer = _next_input(background, source, control)
            case _:
                yield yielded


def _next_input(background: deque[Background], source: Iterator[Input], control: RunControl) -> Input:
    if background:
        item = background.popleft()
        return Completed(item.tag, item.work.function(item.work.rows, control))
    return next(source, End())
