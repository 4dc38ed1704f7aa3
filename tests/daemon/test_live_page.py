"""What the page of live transcription is served with. What it does is tested in a browser."""

import re
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.services import fake_app

from audiocpp.daemon.http.live_page import ASSETS, CONTENT_TYPES, FILES, PAGE


async def get(folder: Path, path: str, *, host: str = "127.0.0.1:8080", **config: Any) -> Any:
    with trio.fail_after(5):
        client = fake_app(folder, **config).test_client()
        response = await client.get(path, headers={"Host": host})
        await response.get_data()
        return response


def directives(response: Any) -> dict[str, str]:
    policy = response.headers["Content-Security-Policy"]
    return {name: sources for name, _, sources in (part.strip().partition(" ") for part in policy.split(";"))}


@pytest.mark.parametrize("path", ["/live", *(f"/live/{name}" for name in sorted(ASSETS))])
async def test_the_page_and_its_files_need_no_key_and_allow_nothing_foreign(tmp_path: Path, path: str) -> None:
    response = await get(tmp_path, path, api_keys=["secret"])
    assert response.status_code == 200
    assert response.content_type.startswith(CONTENT_TYPES[Path(path).suffix or ".html"])
    policy = directives(response)
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["connect-src"] == "'self' ws://127.0.0.1:8080 wss://127.0.0.1:8080"
    assert policy["frame-ancestors"] == "'none'"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_host_that_is_no_host_is_not_in_the_policy(tmp_path: Path) -> None:
    response = await get(tmp_path, "/live", host="localhost; script-src *")
    assert "*" not in response.headers.get("Content-Security-Policy", "")


@pytest.mark.parametrize("name", ["nothing.js", "page.html", "..%2f__init__.py", "%2e%2e/__init__.py", ""])
async def test_nothing_else_is_served(tmp_path: Path, name: str) -> None:
    assert (await get(tmp_path, f"/live/{name}")).status_code == 404


def test_the_page_has_no_script_or_style_of_its_own_and_every_file_is_used() -> None:
    html = (FILES / PAGE).read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", html)
    text = "".join((FILES / name).read_text(encoding="utf-8") for name in (PAGE, *ASSETS))
    assert [name for name in ASSETS if name not in text] == []
    assert {path.name for path in FILES.iterdir()} == {PAGE, *ASSETS}
    assert not re.search(r"https?://", text)
