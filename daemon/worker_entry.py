"""The first thing a new worker process runs. Imported by the control process too, so it imports nothing heavy."""

import socket


def run_worker(connection: socket.socket, *, threads: int, name: str) -> None:
    """Becomes a worker on `connection`. Does not return."""
    from audiocpp.engines.worker import worker_main

    worker_main(connection, threads=threads, name=name)
