"""A client that costs next to nothing: one connection a request, the body made beforehand, the first byte timed."""

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_TIMEOUT_S = 120.0
_BOUNDARY = "audiocpp-bench"
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply. `first_s`: from the start of the request to the first bytes of the body."""

    status: int
    body: bytes
    first_s: float
    wall_s: float

    def json(self) -> Any:  # noqa: ANN401 - a document
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpClient:
    """Requests to one server."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def send(self, request: Request) -> Reply:
        """Any status is a reply."""
        started = time.perf_counter()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)
        try:
            connection.request(request.method, request.path, request.body, dict(request.headers))
            response = connection.getresponse()
            body = response.read1(_BLOCK_BYTES)
            first_s = time.perf_counter() - started
            body += response.read()
            return Reply(response.status, body, first_s, time.perf_counter() - started)
        finally:
            connection.close()

    def expect_ok(self, request: Request) -> Reply:
        """Raises `RuntimeError` with the reply's body unless its status is 200."""
        reply = self.send(request)
        if reply.status != http.client.OK:
            raise RuntimeError(f"{request.method} {request.path}: {reply.status} {reply.body[:500]!r}")
        return reply


def json_request(path: str, document: Mapping[str, object]) -> Request:
    return Request("POST", path, json.dumps(document).encode(), {"Content-Type": "application/json"})


def form_request(path: str, fields: Mapping[str, str], *, file: bytes | None = None) -> Request:
    """A multipart form; the file part is called `file`."""
    parts = [_part(f'name="{name}"', value.encode()) for name, value in fields.items()]
    if file is not None:
        parts.append(_part('name="file"; filename="recording.wav"', file))
    body = b"".join(parts) + f"--{_BOUNDARY}--\r\n".encode()
    return Request("POST", path, body, {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"})


def _part(disposition: str, value: bytes) -> bytes:
    return f"--{_BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + value + b"\r\n"
