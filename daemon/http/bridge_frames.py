"""The messages of the WebSocket bridge: a request in, its reply in one or several out. Knows no socket and no app."""

import base64
import codecs
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.json_body import parse_object
from audiocpp.daemon.option_text import option_text

ENVELOPE = frozenset({"method", "query", "headers", "body", "body_json"})
"""An object with none of these members is not an envelope, but the body itself."""

OF_THE_CONNECTION = frozenset({"connection", "content-length", "host", "origin", "transfer-encoding", "upgrade"})
"""Headers that a message cannot set: they say how and by whom the connection was made."""

TEXT_TYPES = ("text/", "application/json", "application/openmetrics-text")

_METHOD = re.compile(r"[A-Z]{1,16}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")

Headers = Sequence[tuple[bytes, bytes]]


class BridgedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a message asks for. `query` is None where the one of the handshake counts."""

    method: str = "POST"
    query: str | None = None
    headers: Mapping[str, str] = {}
    body: bytes = b""


def request_id_of(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The `id` of a message that may be no valid one; None if there is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document.get("id") if isinstance(document, dict) and ENVELOPE & document.keys() else None


def parse_request(text: str) -> BridgedRequest:
    """Raises `InvalidRequest`."""
    document = parse_object(text.encode(), param="message")
    if not ENVELOPE & document.keys():
        return BridgedRequest(headers={"content-type": "application/json"}, body=text.encode())
    if "path" in document:
        raise InvalidRequest("path: a message goes to the path of the handshake", param="path")
    headers = _headers(document.get("headers"))
    if document.get("body") is not None and document.get("body_json") is not None:
        raise InvalidRequest("body and body_json are both set; send one of them", param="body_json")
    if document.get("body_json") is not None:
        headers.setdefault("content-type", "application/json")
    return BridgedRequest(
        method=_method(document.get("method")),
        query=_query(document.get("query")),
        headers=headers,
        body=_body(document),
    )


def _method(value: object) -> str:
    if value is None:
        return "POST"
    if not isinstance(value, str) or not _METHOD.fullmatch(value.upper()):
        raise InvalidRequest(f"method: {value!r} is no method; accepted are GET, POST and so on", param="method")
    return value.upper()


def _query(value: object) -> str | None:
    match value:
        case None:
            return None
        case str():
            return value.removeprefix("?")
        case dict() if all(isinstance(text, str | int | float) for text in value.values()):
            return urlencode({name: option_text(text) for name, text in value.items()})
    raise InvalidRequest("query: expected a text, or an object of texts and numbers", param="query")


def _headers(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequest("headers: expected an object of texts", param="headers")
    headers = {}
    for name, text in value.items():
        at = f"headers.{name}"
        if not _HEADER.fullmatch(name) or not isinstance(text, str) or not text.isascii() or not text.isprintable():
            raise InvalidRequest(f"{at}: a header has a plain name and a text of ASCII letters", param=at)
        if name.lower() in OF_THE_CONNECTION:
            raise InvalidRequest(f"{at}: it is of the connection and cannot be set", param=at)
        headers[name.lower()] = text
    return headers


def _body(document: Mapping[str, Any]) -> bytes:
    body = document.get("body")
    if body is None:
        value = document.get("body_json")
        return b"" if value is None else json.dumps(value, ensure_ascii=False).encode()
    if not isinstance(body, str):
        raise InvalidRequest("body: expected a text; body_json takes an object", param="body")
    return body.encode()


class ReplyFrames:
    """Makes the messages of one reply."""

    def __init__(self, request_id: object, status: int, headers: Headers) -> None:
        named = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
        self.content_type = next((value for name, value in named if name == "content-type"), "")
        length = next((value for name, value in named if name == "content-length"), None)
        self.content_length = None if length is None else int(length)
        """None for a stream."""
        own = {"content-type", "content-length", "connection"}
        self._head = {
            "id": request_id,
            "status": status,
            "content_type": self.content_type,
            "headers": {name: value for name, value in named if name not in own},
        }
        self._id = request_id
        self._is_text = self.content_type.startswith(TEXT_TYPES)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def whole(self, body: bytes) -> str:
        """The reply in one message."""
        return _message({"type": "response", **self._head, **self._content(body, last=True)})

    def start(self) -> str:
        return _message({"type": "response.start", **self._head})

    def piece(self, data: bytes, *, last: bool) -> str | None:
        """A piece of the body; None when there is nothing to send yet."""
        content = self._content(data, last=last)
        return _message({"type": "response.body", "id": self._id, **content}) if content["body"] else None

    def done(self) -> str:
        return _message({"type": "response.done", "id": self._id})

    def _content(self, data: bytes, *, last: bool) -> dict[str, str]:
        """A text, or base64 where it is none; a character may be split between pieces."""
        if self._is_text:
            return {"body": self._decoder.decode(data, last)}
        return {"body": base64.b64encode(data).decode(), "encoding": "base64"}


def error_message(message: str, *, kind: str = "server_error", request_id: object = None) -> str:
    """What is answered where there is no reply."""
    return _message({"type": "error", "id": request_id, "error": {"message": message, "type": kind}})


def _message(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)
