"""The client against the real app on a real socket, and against everything else that may be at that path."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.fakes.admin_backend import MODEL_BYTES, FakeBackend, Refusal
from tests.fakes.admin_server import admin_socket, in_thread

from audiocpp.control import failures
from audiocpp.control.client import AdminClient
from audiocpp.control.protocol import EXIT_CODES, VERSION_HEADER, ExitCode
from audiocpp.control.unix_http import socket_candidates


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@contextmanager
def raw_socket(path: Path, answer: bytes | None = None) -> Iterator[str]:
    """A listening socket that gives every caller the same bytes, or, without any, says nothing at all."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        accepted, _ = server.accept()
        with accepted:
            accepted.recv(4096)
            accepted.sendall(answer or b"")

    thread = threading.Thread(target=serve)
    if answer is not None:
        thread.start()
    with server:
        yield str(path)
        if answer is not None:
            thread.join(5)


async def test_a_load_is_reported_and_repeating_it_changes_nothing(backend: FakeBackend, tmp_path: Path) -> None:
    async with admin_socket(backend, tmp_path) as path:
        client = AdminClient([path])
        first = await in_thread(partial(client.load, "moonshine"))
        second = await in_thread(partial(client.load, "moonshine"))
        rows = (await in_thread(client.ps))["models"]
    assert first["changed"]
    assert first["resident_bytes"] == MODEL_BYTES
    assert not second["changed"]
    assert [row["id"] for row in rows] == ["moonshine", "piper"]


async def test_unload_all_is_not_unload_of_nothing(backend: FakeBackend, tmp_path: Path) -> None:
    async with admin_socket(backend, tmp_path) as path:
        client = AdminClient([path])
        await in_thread(partial(client.unload, [], timeout_s=7))
        await in_thread(partial(client.unload, None, force=True))
    assert backend.unload_calls == [([], False, 7.0), (None, True, 30.0)]


async def test_events_of_a_pull_arrive_while_it_runs(backend: FakeBackend, tmp_path: Path) -> None:
    backend.gate = trio.Event()
    async with admin_socket(backend, tmp_path) as path:
        events = AdminClient([path]).pull("moonshine_tiny_en")
        first = await in_thread(partial(next, events))
        assert not backend.installed["moonshine_tiny_en"]
        backend.gate.set()
        rest = await in_thread(partial(list, events))
    assert first["event"] == "package"
    assert [event["event"] for event in rest] == ["progress"] * 3 + ["done"]


async def test_a_pull_ends_when_its_client_leaves(backend: FakeBackend, tmp_path: Path) -> None:
    backend.gate = trio.Event()
    async with admin_socket(backend, tmp_path) as path:
        events = AdminClient([path]).pull("moonshine_tiny_en")
        await in_thread(partial(next, events))
        await backend.entered.wait()
        await in_thread(events.close)
        await backend.cancelled.wait()


async def test_an_error_in_the_middle_of_a_pull_is_raised(backend: FakeBackend, tmp_path: Path) -> None:
    backend.failure = Refusal("insufficient_storage", status=507, message="no space left")
    async with admin_socket(backend, tmp_path) as path:
        with pytest.raises(failures.Failed, match="no space left"):
            await in_thread(lambda: list(AdminClient([path]).pull("moonshine_tiny_en")))


@pytest.mark.parametrize(("code", "exit_code"), [*EXIT_CODES.items(), ("model_failed", ExitCode.FAILED)])
async def test_error_codes_become_exceptions(
    backend: FakeBackend, tmp_path: Path, code: str, exit_code: ExitCode
) -> None:
    backend.failure = Refusal(code, message="why")
    async with admin_socket(backend, tmp_path) as path:
        with pytest.raises(failures.ControlError, match="why") as raised:
            await in_thread(AdminClient([path]).ps)
    assert (raised.value.exit_code, raised.value.code) == (exit_code, code)


def test_every_socket_that_was_tried_is_named(tmp_path: Path) -> None:
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stale))
    missing = tmp_path / "missing.sock"
    too_long = tmp_path / ("x" * 200)
    with pytest.raises(failures.NotReachable) as raised:
        AdminClient([str(missing), str(stale), str(too_long)]).status()
    for named in (f"{missing} (does not exist)", f"{stale} (nobody listens)", f"{too_long} ("):
        assert named in raised.value.message


async def test_the_first_live_socket_is_used(backend: FakeBackend, tmp_path: Path) -> None:
    async with admin_socket(backend, tmp_path) as path:
        status = await in_thread(AdminClient([str(tmp_path / "missing.sock"), path]).status)
    assert status["pid"] == 42


def test_a_daemon_that_does_not_answer_is_not_a_missing_one(tmp_path: Path) -> None:
    with raw_socket(tmp_path / "hung.sock") as path, pytest.raises(failures.TimedOut, match=r"within 0\.1 s"):
        AdminClient([path], answer_timeout_s=0.1).status()


OTHER_VERSION = f"HTTP/1.1 404 Not Found\r\n{VERSION_HEADER}: 2\r\nContent-Length: 2\r\n\r\n{{}}".encode()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (OTHER_VERSION, failures.VersionMismatch),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", failures.VersionMismatch),
        (b"SSH-2.0-OpenSSH_9.2\r\n", failures.VersionMismatch),
        (b"", failures.NotReachable),
        (b"HTTP/1.1 200 OK\r\nX-AudioCPP-Admin-Version: 1\r\nContent-Length: 20\r\n\r\n{}", failures.NotReachable),
        (b'HTTP/1.1 503 Busy\r\nContent-Length: 34\r\n\r\n{"error": {"code": "server_busy"}}\n', failures.Busy),
        (b"HTTP/1.1 500 Oops\r\nX-AudioCPP-Admin-Version: 1\r\nContent-Length: 4\r\n\r\nOops", failures.Failed),
    ],
)
def test_whatever_answers_there_is_told_apart(tmp_path: Path, answer: bytes, kind: type[Exception]) -> None:
    with raw_socket(tmp_path / "s.sock", answer) as path, pytest.raises(kind):
        AdminClient([path]).status()


@pytest.mark.parametrize(
    ("explicit", "environment", "paths"),
    [
        ("/a", {"AUDIOCPP_SOCKET": "/b", "XDG_RUNTIME_DIR": "/c"}, ["/a"]),
        (None, {"AUDIOCPP_SOCKET": "/b", "XDG_RUNTIME_DIR": "/c"}, ["/b"]),
        (None, {"XDG_RUNTIME_DIR": "/c"}, ["/c/audiocpp/admin.sock", "/run/audiocpp/admin.sock"]),
        (None, {}, ["/run/audiocpp/admin.sock"]),
    ],
)
def test_where_the_socket_is_looked_for(explicit: str | None, environment: dict[str, str], paths: list[str]) -> None:
    assert socket_candidates(explicit, environment) == paths
