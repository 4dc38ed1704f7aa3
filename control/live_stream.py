"""Audio out, events in, at the same time and in one thread: the loop of a live transcription client."""

import math
import select
import time
from collections.abc import Iterator, Mapping
from typing import Any

from audiocpp.control.failures import TimedOut, replied_error
from audiocpp.control.interrupt import Interrupt
from audiocpp.control.pcm_source import Pacer, PcmSource
from audiocpp.control.websocket import WebSocket

MAX_UNSENT_BYTES = 256 * 1024
"""The source is not read on while so much still waits for the daemon to take it."""

Event = Mapping[str, Any]


def stream_live(connection: WebSocket, source: PcmSource, *, pace: float, answer_timeout_s: float) -> Iterator[Event]:
    """Send the source's audio and yield the daemon's events as they come; ends after `transcript.text.done`.

    Ctrl-C while audio is being sent ends the audio, and what was said is still transcribed; another one is raised.
    Raises what an `error` event says, NotReachable when the connection is lost, TimedOut when the daemon says nothing
    for `answer_timeout_s` after the end of the audio.
    """
    with Interrupt() as interrupt:
        sender = _Sender(connection, source, interrupt, pace=pace)
        heard_s = time.monotonic()
        while True:
            patience_s = heard_s + answer_timeout_s - time.monotonic() if sender.ended else math.inf
            if patience_s <= 0:
                raise TimedOut(f"The daemon said nothing for {answer_timeout_s:g} s after the end of the audio.")
            is_readable = sender.wait(patience_s)
            sender.send_due()
            if not is_readable:
                continue
            heard_s = time.monotonic()
            for event in connection.receive():
                yield _checked(event)
                if event["type"] == "transcript.text.done":
                    return


def _checked(event: Event) -> Event:
    if event["type"] == "error":
        raise replied_error(event, status=0)
    return event


class _Sender:
    """The outgoing half. `ended` once the end of the audio has been said."""

    def __init__(self, connection: WebSocket, source: PcmSource, interrupt: Interrupt, *, pace: float) -> None:
        self._connection = connection
        self._interrupt = interrupt
        self._source = source
        self._pacer = Pacer(source.format, pace=pace)
        self.ended = False

    def wait(self, patience_s: float) -> bool:
        """Sleep until there is something to do. Returns whether the connection can be read."""
        source_fd = self._source.fileno()
        wanted = not self.ended and self._connection.unsent_bytes < MAX_UNSENT_BYTES
        due_in_s = self._pacer.due_in_s() if wanted else math.inf
        readers: list[WebSocket | Interrupt | int] = [self._connection]
        if not self.ended:
            readers.append(self._interrupt)
        if wanted and due_in_s == 0 and source_fd is not None:
            readers.append(source_fd)
            due_in_s = math.inf
        writers = [self._connection] if self._connection.unsent_bytes else []
        timeout_s = min(due_in_s, patience_s)
        readable, writable, _ = select.select(readers, writers, [], None if timeout_s == math.inf else timeout_s)
        self._has_audio = source_fd in readable if source_fd is not None else wanted
        if writable:
            self._connection.flush()
        return self._connection in readable

    def send_due(self) -> None:
        """Queue the next chunk of audio if it is due and there is one; after Ctrl-C, its end."""
        if self._interrupt.pressed and not self.ended:
            self.end()
        if self.ended or not self._has_audio or self._pacer.due_in_s() > 0:
            return
        data = self._source.read(self._pacer.chunk_bytes)
        if not data:
            self.end()
            return
        self._connection.send_bytes(data)
        self._pacer.sent(len(data))

    def end(self) -> None:
        self._connection.send_json({"type": "end"})
        self.ended = True
