"""A worker that speaks hostile texts: what drives all runs stays free, a cancel is heard, memory is bounded."""

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from audiocpp.engines import wire
from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import Run
from audiocpp.engines.graph import Float32
from audiocpp.engines.phonemes import EspeakPhonemizer, known_parts
from audiocpp.engines.run_driver import Driver
from audiocpp.engines.speech_synthesis import find_sentences, speak
from audiocpp.engines.tasks import AudioChunk

CHARS = 1_000_000
HOSTILE = {
    "pictures": "![" * (CHARS // 2),
    "nested brackets": "[" * (CHARS // 2) + "]" * (CHARS // 2),
    "digits": "7" * CHARS,
    "grouped digits": "1,234," * (CHARS // 6),
    "one word": "a" * CHARS,
    "ideographs": "漢" * CHARS,
    "zero width": "\u200b" * CHARS,
    "joiners": "\u200d" * CHARS,
    "combining": "\u0301" * CHARS,
    "stops": "." * CHARS + "a",
    "comments": "<!--" * (CHARS // 4),
    "unclosed tags": "<a b='" * (CHARS // 6),
    "pauses": "<break/>" * (CHARS // 8),
    "quotes": "> " * (CHARS // 2),
    "table": "|a" * (CHARS // 4) + "\n" + "|-" * (CHARS // 4),
    "fences": "```\n" * (CHARS // 4),
    "emphasis": "*a_" * (CHARS // 3),
    "entities": "&amp;" * (CHARS // 5),
    "white space": " \n" * (CHARS // 2),
}
"""Texts of about a megabyte."""

LIMIT_S = 20.0
LONGEST_STEP_S = 0.02
"""Processor time that one step of a run may take from the thread that drives all of them."""

LONGEST_CANCEL_S = 3.0
"""A run that goes on for 5 s is ended with its worker."""

MOST_SYMBOLS = 200
NEIGHBOURS = 20
"""Runs that are served one after the other beside a hostile one."""


@pytest.fixture(scope="module")
def phonemizer() -> EspeakPhonemizer:
    return EspeakPhonemizer("en-us")


class Speaker:
    """Speaks with real phonemes and no model: a sample for each symbol. Counts the longest row."""

    def __init__(self, phonemizer: EspeakPhonemizer) -> None:
        self._phonemizer = phonemizer
        self.longest = 0

    def run(self, text: str) -> Run:
        sentences = find_sentences(text, language="en-US", max_chars=180, rows_of=self._rows_of)
        return speak(sentences, self._synthesize, sample_rate=100, sentences_ahead=2)

    def _rows_of(self, piece: str) -> Iterator[str]:
        return known_parts(self._phonemizer.phonemize(piece), Everything(), MOST_SYMBOLS)

    def _synthesize(self, rows: Sequence[str], control: RunControl) -> list[Float32]:
        control.check()
        self.longest = max(self.longest, *map(len, rows))
        return [np.ones(len(row), np.float32) for row in rows]


class Everything:
    """A voice that knows each symbol."""

    def __contains__(self, symbol: object) -> bool:
        return True


def timed(run: Run, steps: list[float]) -> Run:
    """The same run; `steps` gets the processor time of each of its steps."""
    answer = None
    while True:
        started = time.thread_time()
        try:
            yielded = run.send(answer)
        except StopIteration:
            return
        finally:
            steps.append(time.thread_time() - started)
        answer = yield yielded


class Desk:
    """A driver with two compute threads, as a worker has, and a queue of messages for each run."""

    def __init__(self) -> None:
        self._queues: Mapping[int, queue.Queue[wire.Reply]] = {
            number: queue.Queue() for number in range(2 + NEIGHBOURS)
        }
        self.driver = Driver(self._deliver)
        targets = [self.driver.drive, self.driver.compute, self.driver.compute]
        self.threads = [threading.Thread(target=target) for target in targets]
        for thread in self.threads:
            thread.start()

    def _deliver(self, reply: wire.Reply) -> None:
        match reply:
            case wire.Event(run=run) | wire.RunDone(run=run) | wire.RunError(run=run):
                self._queues[run].put(reply)

    def next(self, run: int) -> wire.Reply:
        return self._queues[run].get(timeout=LIMIT_S)

    def last(self, run: int) -> wire.Reply:
        while isinstance(reply := self.next(run), wire.Event):
            pass
        return reply


@contextmanager
def opened_desk() -> Iterator[Desk]:
    desk = Desk()
    try:
        yield desk
    finally:
        desk.driver.stop()
        for thread in desk.threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_holds_up_nobody_and_is_cancelled_at_once(name: str, phonemizer: EspeakPhonemizer) -> None:
    hostile, steps = Speaker(phonemizer), list[float]()
    with opened_desk() as desk:
        desk.driver.open(1, timed(hostile.run(HOSTILE[name]), steps))
        for neighbour in range(2, 2 + NEIGHBOURS):
            desk.driver.open(neighbour, Speaker(phonemizer).run("Good morning. How are you?"))
            assert isinstance(desk.last(neighbour), wire.RunDone)
        asked = time.monotonic()
        desk.driver.cancel(1)
        assert isinstance(desk.last(1), wire.RunError)
        assert time.monotonic() - asked < LONGEST_CANCEL_S
    assert max(steps) < LONGEST_STEP_S
    assert hostile.longest <= MOST_SYMBOLS


def spoken(text: str, phonemizer: EspeakPhonemizer) -> list[AudioChunk]:
    with opened_desk() as desk:
        desk.driver.open(1, Speaker(phonemizer).run(text))
        chunks = []
        while isinstance(reply := desk.next(1), wire.Event):
            assert isinstance(reply.event, AudioChunk)
            chunks.append(reply.event)
        assert isinstance(reply, wire.RunDone)
        return chunks


def test_sentences_that_two_threads_find_and_compute_leave_in_order(phonemizer: EspeakPhonemizer) -> None:
    alone = [spoken("na " * number, phonemizer)[0].pcm for number in range(1, 21)]
    together = spoken(". ".join("na " * number for number in range(1, 21)), phonemizer)
    assert [chunk.pcm for chunk in together][-1] == alone[-1]
    lengths = [len(chunk.pcm) for chunk in together]
    assert lengths == sorted(lengths)
    assert len(lengths) == 20


@pytest.mark.parametrize("text", ["", "?!", "\u200b" * 100_000, "![" * 20_000, "\n\n" * 20_000])
def test_a_text_of_any_length_in_which_nothing_can_be_spoken_is_refused(
    text: str, phonemizer: EspeakPhonemizer
) -> None:
    with opened_desk() as desk:
        desk.driver.open(1, Speaker(phonemizer).run(text))
        refusal = desk.next(1)
        assert isinstance(refusal, wire.RunError)
        assert (refusal.code, refusal.param) == (InvalidInput.code, "input")


def test_speech_after_a_long_stretch_of_nothing_is_found(phonemizer: EspeakPhonemizer) -> None:
    assert len(spoken("\u200b" * 100_000 + "Hello.", phonemizer)) == 1
