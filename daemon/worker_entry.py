"""The first thing a new worker process runs. Imported by the control process too, so it imports nothing heavy."""

import resource
import socket
from typing import Final

MODEL_NICENESS: Final = 5
"""Models compute for seconds on all cores; what moves their bytes needs a moment at once. Without the difference, the
first audio of a stream waited up to 20 ms behind the sentences that were being computed ahead."""


CODEC_DATA_BYTES: Final = 1 << 30
"""Most memory that the decoder may map. It needs 160 MiB; a crafted file that makes a decoder ask for more is told that
it cannot be read.
"""


def run_worker(connection: socket.socket, *, threads: int, name: str) -> None:
    """Becomes a worker for models on `connection`. Does not return."""
    from audiocpp.engines.worker import worker_main

    worker_main(connection, threads=threads, name=name, niceness=MODEL_NICENESS)


def run_codec_worker(connection: socket.socket, *, threads: int, name: str) -> None:
    """Becomes the worker that decodes and encodes, as urgent as the daemon itself. Does not return."""
    from audiocpp.engines.worker import worker_main

    resource.setrlimit(resource.RLIMIT_DATA, (CODEC_DATA_BYTES, CODEC_DATA_BYTES))
    worker_main(connection, threads=threads, name=name)
