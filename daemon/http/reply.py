"""Replies with a body that is known."""

import json
from collections.abc import Mapping
from typing import Any

from quart import Response


def json_reply(body: Mapping[str, Any], *, status: int = 200) -> Response:
    return Response(json.dumps(body, ensure_ascii=False), status=status, content_type="application/json")


def bytes_reply(body: bytes, *, content_type: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, headers=dict(headers or {}), content_type=content_type)
