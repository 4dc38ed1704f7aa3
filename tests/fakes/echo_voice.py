"""A family that takes recordings of voices and gives back what it was given. No model of that kind is small enough."""

import json
import socket
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from audiocpp.engines.families import FAMILIES
from audiocpp.engines.family import LoadContext, Run
from audiocpp.engines.tasks import AudioChunk, TaskRequest

SPEC = Path(__file__).with_suffix(".json")
RATE_HZ = 24_000
PLAY = "play"
SILENCE = "seconds of silence"


class EchoVoice:
    """Speaks the recording of the request when the text is `PLAY`, a number of `SILENCE`, else a description of the
    request (`described`).
    """

    name: ClassVar[str] = "echo_voice"

    @classmethod
    def load(cls, context: LoadContext) -> "EchoVoice":
        return cls()

    def run(self, request: TaskRequest) -> Run:
        if request.text == PLAY and request.reference is not None:
            yield AudioChunk(pcm=request.reference.pcm, sample_rate=request.reference.sample_rate)
            return
        if request.text.endswith(SILENCE):
            for _ in range(int(request.text.removesuffix(SILENCE))):
                yield AudioChunk(pcm=bytes(4 * RATE_HZ), sample_rate=RATE_HZ)
            return
        samples = np.frombuffer(json.dumps(_description(request)).encode(), np.uint8).astype(np.float32) / 32767
        yield AudioChunk(pcm=samples.tobytes(), sample_rate=RATE_HZ)

    def warm_up(self) -> None:
        pass

    def close(self) -> None:
        pass


def _description(request: TaskRequest) -> dict[str, Any]:
    reference = request.reference
    return {
        "text": request.text,
        "voice": request.voice,
        "options": request.options,
        "samples": None if reference is None else len(reference.pcm) // 4,
        "sample_rate": None if reference is None else reference.sample_rate,
    }


def described(pcm16: bytes) -> dict[str, Any]:
    """What the family was given, from the `pcm` that it was made to speak."""
    return dict(json.loads(np.frombuffer(pcm16, "<i2").astype(np.uint8).tobytes()))


def run_echo_worker(connection: socket.socket, *, threads: int, name: str) -> None:
    """Like `run_worker`, with the family `echo_voice`."""
    from audiocpp.engines.worker import worker_main

    FAMILIES["echo_voice"] = (__name__, EchoVoice.__name__)
    worker_main(connection, threads=threads, name=name)
