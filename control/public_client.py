"""Thin client of the public HTTP API, for the verbs that speak to the models. Standard library only."""

import http.client
import json
import os
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

from audiocpp.control.failures import Failed, NotReachable, TimedOut, replied_error

TRANSCRIPTIONS_PATH = "/v1/audio/transcriptions"
LIVE_PATH = "/v1/audio/transcriptions/live"
SPEECH_PATH = "/v1/audio/speech"

_BLOCK_BYTES = 64 * 1024


class Address(NamedTuple):
    """Where the public API is. `prefix` is the path below which a proxy serves it, usually empty."""

    host: str
    port: int
    prefix: str

    @classmethod
    def of_url(cls, url: str) -> "Address":
        """Raises Failed when `url` is not `http://HOST[:PORT][/PREFIX]`."""
        try:
            parts = urllib.parse.urlsplit(url)
            host, port = parts.hostname, parts.port or 80
        except ValueError as error:
            raise Failed(f"URL {url!r}: {error}", code="invalid_url") from error
        if parts.scheme != "http" or not host:
            raise Failed(f"URL {url!r}: http://HOST[:PORT] is expected", code="invalid_url")
        return cls(host, port, parts.path.rstrip("/"))


class PublicClient:
    """One connection a call. Raises `failures.ControlError`s like the admin client does.

    `timeout_s` is how long the daemon may be silent, which is how long it may compute.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url = url
        self._address = Address.of_url(url)
        self._timeout_s = timeout_s

    def transcribe(
        self, audio: BinaryIO, *, size_bytes: int, name: str, fields: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """Upload `size_bytes` of an audio file in any format that the daemon reads; returns its JSON reply."""
        boundary = os.urandom(16).hex()
        head, tail = _multipart_frame(boundary, name, fields)
        headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(head) + size_bytes + len(tail)),
        }
        with self._answer(TRANSCRIPTIONS_PATH, _framed(head, audio, tail), headers) as response:
            reply: Mapping[str, Any] = json.loads(response.read())
            return reply

    @contextmanager
    def speak(self, fields: Mapping[str, object]) -> Iterator[http.client.HTTPResponse]:
        """The reply to a speech request, a WAV file, its body unread."""
        headers = {"Content-Type": "application/json"}
        with self._answer(SPEECH_PATH, json.dumps(fields).encode(), headers) as response:
            yield response

    @contextmanager
    def _answer(
        self, path: str, body: bytes | Iterable[bytes], headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._address.host, self._address.port, timeout=self._timeout_s)
        try:
            with transport_errors(self._url, self._timeout_s):
                connection.connect()
                _send(connection, self._address.prefix + path, body, headers)
                response = connection.getresponse()
                if response.status != http.client.OK:
                    raise replied_error(decoded_json(response.read()), status=response.status)
                yield response
        finally:
            connection.close()


@contextmanager
def transport_errors(url: str, timeout_s: float) -> Iterator[None]:
    """Turn what goes wrong on the way into the client's exceptions."""
    try:
        yield
    except TimeoutError as error:
        raise TimedOut(f"{url} did not answer within {timeout_s:g} s.") from error
    except (http.client.HTTPException, ConnectionError) as error:
        raise NotReachable(f"{url}: {str(error) or type(error).__name__}.") from error
    except OSError as error:
        raise NotReachable(f"{url}: {error.strerror or error}.") from error


def decoded_json(body: bytes) -> object:
    """None for what is not JSON: a proxy's page, for instance."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def _send(
    connection: http.client.HTTPConnection, path: str, body: bytes | Iterable[bytes], headers: Mapping[str, str]
) -> None:
    try:
        connection.request("POST", path, body, dict(headers))
    except (BrokenPipeError, ConnectionResetError):
        return  # refused while the upload still ran: the answer says why, and reading it fails where there is none


def _multipart_frame(boundary: str, name: str, fields: Mapping[str, str]) -> tuple[bytes, bytes]:
    """What goes before and after the file's bytes (RFC 7578, names escaped as browsers do)."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    ]
    quoted = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return "".join(parts).encode(), f"\r\n--{boundary}--\r\n".encode()


def _framed(head: bytes, audio: BinaryIO, tail: bytes) -> Iterator[bytes]:
    yield head
    while block := audio.read(_BLOCK_BYTES):
        yield block
    yield tail
