"""GET /openapi.json and GET /docs: this API, for programs and for people. Made when first asked for."""

import json
from functools import lru_cache
from typing import Any

import trio
from quart import Blueprint, Quart, Response, current_app

from audiocpp.daemon.backend import backend
from audiocpp.daemon.http.reply import bytes_reply

description = Blueprint("description", __name__)

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The page has its style inside, and no script."""


@description.get("/openapi.json")
async def get_openapi() -> Response:
    """This API as an OpenAPI 3.1 document. Needs no key."""
    return bytes_reply(await _made(_openapi), content_type="application/json")


@description.get("/docs")
async def get_docs() -> Response:
    """This API as a page to read. Needs no key, and nothing from elsewhere."""
    headers = {"Content-Security-Policy": PAGE_POLICY, "X-Content-Type-Options": "nosniff"}
    return bytes_reply(await _made(_page), content_type="text/html; charset=utf-8", headers=headers)


async def _made(make: Any) -> bytes:  # noqa: ANN401 - a cached function
    app, version = current_app._get_current_object(), backend().services.version  # type: ignore[attr-defined]
    made: bytes = await trio.to_thread.run_sync(make, app, version)
    return made


@lru_cache(maxsize=1)
def _document(app: Quart, version: str) -> dict[str, Any]:
    from audiocpp.daemon.http.openapi.document import build_document

    return build_document(app, version=version)


@lru_cache(maxsize=1)
def _openapi(app: Quart, version: str) -> bytes:
    return json.dumps(_document(app, version), ensure_ascii=False).encode()


@lru_cache(maxsize=1)
def _page(app: Quart, version: str) -> bytes:
    from audiocpp.daemon.http.openapi.page import render_page

    return render_page(_document(app, version)).encode()
