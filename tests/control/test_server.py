"""The admin app by itself: rights, refusals, error bodies and the log of changes."""

import json
import logging
from typing import Any

import pytest
import trio
from tests.fakes.admin_backend import FakeBackend, Refusal

from audiocpp.control import protocol
from audiocpp.control.handlers import ROUTES
from audiocpp.control.peer import PeerCredentials
from audiocpp.control.rights import AccessPolicy, Right
from audiocpp.control.server import MAX_BODY_BYTES, create_admin_app

READERS, WRITERS = 901, 902
POLICY = AccessPolicy(owner_uid=900, reader_gid=READERS, writer_gid=WRITERS)
READER = PeerCredentials(uid=1000, gid=READERS, pid=77)
WRITER = PeerCredentials(uid=1001, gid=100, pid=78, groups=(WRITERS,))
STRANGER = PeerCredentials(uid=1002, gid=100, pid=79)


class Admin:
    """Calls the app as a given peer and returns status, headers and decoded body."""

    def __init__(self, backend: FakeBackend) -> None:
        self._client = create_admin_app(backend, policy=POLICY).test_client()

    async def call(
        self, method: str, path: str, body: Any = None, *, peer: PeerCredentials | None = WRITER, **headers: str
    ) -> tuple[int, Any, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body)
        with trio.fail_after(5):
            response = await self._client.open(
                path,
                method=method,
                data=None if body is None else data,
                headers={"Host": "audiocppd", **headers},
                scope_base={"state": {} if peer is None else {"peer": peer}},
            )
            return response.status_code, response.headers, json.loads(await response.get_data())


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def admin(backend: FakeBackend) -> Admin:
    return Admin(backend)


BODIES = {
    protocol.EXPLAIN_PATH: {"id": "moonshine"},
    protocol.LOAD_PATH: {"id": "moonshine"},
    protocol.UNLOAD_PATH: {"all": True},
    protocol.PULL_PATH: {"package": "nothing"},
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
@pytest.mark.parametrize("peer", [READER, WRITER, STRANGER, None])
async def test_every_route_checks_its_right(admin: Admin, route: Any, peer: PeerCredentials | None) -> None:
    allowed = peer is WRITER or (peer is READER and route.right is Right.READ)
    status, headers, body = await admin.call(route.method, route.path, BODIES.get(route.path), peer=peer)
    assert status == (200 if allowed else 403)
    assert headers[protocol.VERSION_HEADER] == "1"
    if not allowed:
        assert body["error"]["code"] == "forbidden"


@pytest.mark.parametrize(
    ("peer", "path", "group"),
    [(STRANGER, protocol.PS_PATH, "'audiocpp'"), (READER, protocol.LOAD_PATH, "'audiocpp-admin'")],
)
async def test_a_refusal_names_the_group_to_join(admin: Admin, peer: PeerCredentials, path: str, group: str) -> None:
    method = "GET" if path == protocol.PS_PATH else "POST"
    _, _, body = await admin.call(method, path, BODIES.get(path), peer=peer)
    assert group in body["error"]["message"]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://audiocppd"}, {"Origin": "null"}, {"Host": "evil.example"}, {"Host": "audiocppd:80"}]
)
async def test_requests_that_a_web_page_could_cause_are_refused(admin: Admin, headers: dict[str, str]) -> None:
    status, _, body = await admin.call("GET", protocol.STATUS_PATH, **headers)
    assert (status, body["error"]["code"]) == (403, "forbidden")


async def test_curl_may_call_it_localhost(admin: Admin) -> None:
    status, _, body = await admin.call("GET", protocol.STATUS_PATH, Host="localhost")
    assert (status, body["pid"]) == (200, 42)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/admin/v1/nothing", 404, "unknown_path"),
        ("GET", "/admin/v2/status", 404, "unknown_path"),
        ("GET", "/", 404, "unknown_path"),
        ("DELETE", protocol.PS_PATH, 405, "method_not_allowed"),
        ("GET", protocol.LOAD_PATH, 405, "method_not_allowed"),
        ("OPTIONS", protocol.LOAD_PATH, 405, "method_not_allowed"),
    ],
)
async def test_what_does_not_exist_is_said_in_json(
    admin: Admin, method: str, path: str, status: int, code: str
) -> None:
    answered, headers, body = await admin.call(method, path)
    assert (answered, body["error"]["code"]) == (status, code)
    assert headers[protocol.VERSION_HEADER] == "1"


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (protocol.LOAD_PATH, b"", "Expecting value"),
        (protocol.LOAD_PATH, b"\xff{}", "decode"),
        (protocol.LOAD_PATH, b"[" * 20_000, "Request body"),
        (protocol.LOAD_PATH, [], "object"),
        (protocol.LOAD_PATH, {}, "`id`"),
        (protocol.LOAD_PATH, {"id": 7}, "$.id"),
        (protocol.LOAD_PATH, {"id": "moonshine", "timeout_s": -1}, "$.timeout_s"),
        (protocol.LOAD_PATH, {"id": "moonshine", "wiat": False}, "`wiat`"),
        (protocol.LOAD_PATH, b'{"id": "a", "id": "b"}', "duplicate key 'id'"),
        (protocol.UNLOAD_PATH, {}, "`ids`"),
        (protocol.UNLOAD_PATH, {"ids": ["piper"], "all": True}, "`ids`"),
        (protocol.UNLOAD_PATH, {"ids": "piper"}, "$.ids"),
        (protocol.PULL_PATH, {"package": None}, "$.package"),
    ],
)
async def test_a_wrong_body_is_refused_naming_the_field(
    admin: Admin, backend: FakeBackend, path: str, body: Any, named: str
) -> None:
    before = dict(backend.states)
    status, _, answer = await admin.call("POST", path, body)
    assert (status, answer["error"]["code"]) == (400, "invalid_request")
    assert named in answer["error"]["message"]
    assert backend.states == before


async def test_a_huge_body_is_refused(admin: Admin) -> None:
    status, _, body = await admin.call("POST", protocol.LOAD_PATH, b" " * (MAX_BODY_BYTES + 1))
    assert (status, body["error"]["code"]) == (413, "body_too_large")


async def test_a_backend_error_becomes_the_reply(admin: Admin, backend: FakeBackend) -> None:
    backend.failure = Refusal("insufficient_memory", status=503, message="needs 400 MiB", retry_after_s=1.2)
    status, headers, body = await admin.call("POST", protocol.LOAD_PATH, {"id": "moonshine"})
    assert status == 503
    assert headers["Retry-After"] == "2"
    assert body["error"] == {
        "message": "needs 400 MiB",
        "type": "server_error",
        "code": "insufficient_memory",
        "param": None,
    }


async def test_a_defect_is_logged_and_not_shown(
    admin: Admin, backend: FakeBackend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.failure = ZeroDivisionError("a secret")
    status, _, body = await admin.call("GET", protocol.PS_PATH)
    assert (status, body["error"]["code"]) == (500, "internal_error")
    assert "secret" not in body["error"]["message"]
    assert any(record.exc_info and record.exc_info[1] is backend.failure for record in caplog.records)


@pytest.mark.parametrize(
    ("path", "body", "failure", "logged"),
    [
        (protocol.LOAD_PATH, {"id": "moonshine"}, None, ("load", "moonshine", "ok")),
        (protocol.LOAD_PATH, {"id": "x"}, None, ("load", "x", "model_not_found")),
        (protocol.UNLOAD_PATH, {"all": True}, None, ("unload", "*", "ok")),
        (protocol.UNLOAD_PATH, {"ids": ["piper", "moonshine"]}, None, ("unload", "piper,moonshine", "ok")),
        (protocol.LOAD_PATH, {"id": "piper"}, ZeroDivisionError(), ("load", "piper", "internal_error")),
    ],
)
async def test_a_change_is_logged_with_who_and_how_it_ended(
    admin: Admin,
    backend: FakeBackend,
    caplog: pytest.LogCaptureFixture,
    path: str,
    body: Any,
    failure: Exception | None,
    logged: tuple[str, str, str],
) -> None:
    caplog.set_level(logging.INFO)
    backend.failure = failure
    await admin.call("POST", path, body)
    (record,) = [record for record in caplog.records if hasattr(record, "verb")]
    fields = vars(record)
    assert (fields["verb"], fields["target"], fields["result"]) == logged
    assert (fields["uid"], fields["pid"]) == (WRITER.uid, WRITER.pid)


async def test_reading_is_not_logged_as_a_change(admin: Admin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await admin.call("GET", protocol.STATUS_PATH)
    assert not [record for record in caplog.records if hasattr(record, "verb")]
