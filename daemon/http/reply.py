"""Replies with a body that is known."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from quart import Response

from audiocpp.daemon.http.encoded_file import EncodedFile


def json_text(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def json_reply(body: Mapping[str, Any], *, status: int = 200) -> Response:
    return Response(json_text(body), status=status, content_type="application/json")


def bytes_reply(body: bytes, *, content_type: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, headers=dict(headers or {}), content_type=content_type)


def file_reply(file: EncodedFile, *, content_type: str, headers: Mapping[str, str]) -> Response:
    """A file, read as the client takes it."""
    return _long_reply(file.pieces(), file.size_bytes, content_type=content_type, headers=headers)


def file_json_reply(key: str, file: EncodedFile, members: Mapping[str, Any]) -> Response:
    """A JSON object: the base64 of a file as `key`, and then `members`, of which there is at least one."""
    head = f'{{{json.dumps(key)}: "'.encode()
    tail = f'", {json.dumps(members, ensure_ascii=False)[1:]}'.encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield head
        async for piece in file.base64_pieces():
            yield piece
        yield tail

    size_bytes = len(head) + file.base64_bytes + len(tail)
    return _long_reply(pieces(), size_bytes, content_type="application/json", headers={})


def _long_reply(
    pieces: AsyncIterator[bytes], size_bytes: int, *, content_type: str, headers: Mapping[str, str]
) -> Response:
    response = Response(pieces, headers=dict(headers), content_type=content_type)
    response.content_length = size_bytes
    return response
