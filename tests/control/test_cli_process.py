"""The command as its own process: what it imports, and what other users may do."""

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.fakes.admin_backend import FakeBackend
from tests.fakes.admin_server import admin_socket, in_thread

from audiocpp.control.protocol import ExitCode
from audiocpp.control.rights import AccessPolicy

READERS, WRITERS, NOBODY = 54321, 54322, 65534
POLICY = AccessPolicy(owner_uid=0, reader_gid=READERS, writer_gid=WRITERS)
HEAVY = {"trio", "quart", "hypercorn", "httpx", "msgspec", "numpy", "onnxruntime", "wsproto", "h11", "dataclasses"}


async def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return await in_thread(partial(subprocess.run, command, capture_output=True, text=True, timeout=10))


@pytest.mark.parametrize("verb", ["ps", "status", "models"])
async def test_a_verb_answers_with_the_standard_library_alone(backend: FakeBackend, tmp_path: Path, verb: str) -> None:
    script = """
        import sys
        from audiocpp.control.cli import main
        code = main([sys.argv[1], "--socket", sys.argv[2]])
        print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
        sys.exit(code)
    """
    async with admin_socket(backend, tmp_path) as path:
        ended = await python(script, verb, path)
    assert ended.returncode == ExitCode.OK, ended.stderr
    assert "piper" in ended.stdout or "pid 42" in ended.stdout
    assert not HEAVY & set(ended.stderr.split())


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("groups", "verb", "expected", "named"),
    [
        ([], "ps", ExitCode.PERMISSION, "'audiocpp'"),
        ([READERS], "ps", ExitCode.OK, ""),
        ([READERS], "unload --all", ExitCode.PERMISSION, "'audiocpp-admin'"),
        ([WRITERS], "unload --all", ExitCode.OK, ""),
    ],
)
async def test_another_user_may_do_what_its_groups_allow(
    backend: FakeBackend, public_folder: Path, groups: list[int], verb: str, expected: ExitCode, named: str
) -> None:
    async with admin_socket(backend, public_folder, policy=POLICY) as path:
        ended = await python(AS_NOBODY, repr(groups), *verb.split(), "--socket", path)
    assert ended.returncode == expected, ended.stderr
    assert named in ended.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_a_folder_that_may_not_be_entered_is_no_missing_daemon(backend: FakeBackend, tmp_path: Path) -> None:
    async with admin_socket(backend, tmp_path) as path:  # in a folder of pytest's, which is private
        ended = await python(AS_NOBODY, "[]", "ps", "--socket", path)
    assert ended.returncode == ExitCode.PERMISSION
    assert "'audiocpp'" in ended.stderr


AS_NOBODY = f"""
    import json, os, sys
    from audiocpp.control.cli import main
    from audiocpp.control.cli.verb import VERBS
    for verb in VERBS:
        verb.load()  # while the interpreter's own files may still be read
    os.setgroups(json.loads(sys.argv[1]))
    os.setgid({NOBODY})
    os.setuid({NOBODY})
    sys.exit(main(sys.argv[2:]))
"""


async def test_a_reader_that_leaves_is_no_traceback(backend: FakeBackend, tmp_path: Path) -> None:
    backend.states = {f"model-{n}": "ready" for n in range(5000)}
    async with admin_socket(backend, tmp_path) as path:
        command = f"{sys.executable} -c 'from audiocpp.control.cli import main; main()' ps --socket {path} | head -n 1"
        call = partial(subprocess.run, ["bash", "-c", command], capture_output=True, text=True, timeout=10)
        ended = await in_thread(call)
    assert ended.stdout.startswith("model-0\t")
    assert ended.stderr == ""
