"""The verbs that use the public API, against its routes on a real port."""

import io
import json
import stat
import wave
from functools import partial
from pathlib import Path

import pytest
from tests.fakes.admin_backend import FakeBackend
from tests.fakes.admin_server import admin_socket, in_thread, public_url
from tests.fakes.public_api import PublicApi, wav_file

from audiocpp.control.cli import main
from audiocpp.control.protocol import ExitCode

Captured = pytest.CaptureFixture[str]

RECORDING = wav_file(bytes(range(256)) * 4000)


class BinaryStdin(io.TextIOWrapper):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))


async def run(api: PublicApi, *arguments: str) -> int:
    async with public_url(api.app) as url:
        return await in_thread(partial(main, [*arguments, "--url", url]))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / 'a "strange" näme.wav'
    path.write_bytes(RECORDING)
    return path


async def test_transcribe_uploads_the_file_and_prints_its_text(
    public_api: PublicApi, recording: Path, capsys: Captured
) -> None:
    options = ("--model", "moonshine", "--language", "en", "--prompt", "Dickens, ü")
    assert await run(public_api, "transcribe", str(recording), *options) == ExitCode.OK
    assert capsys.readouterr().out == "It was the best of times.\n"
    assert public_api.forms == [{"model": "moonshine", "language": "en", "prompt": "Dickens, ü"}]
    assert public_api.uploads == [('a "strange" näme.wav', RECORDING)]


async def test_transcribe_leaves_the_choice_of_model_to_the_daemon(
    public_api: PublicApi, recording: Path, capsys: Captured
) -> None:
    await run(public_api, "transcribe", str(recording), "--json")
    assert public_api.forms == [{}]
    assert json.loads(capsys.readouterr().out)["timing"] == {"wall_ms": 1.5}


async def test_transcribe_reads_standard_input(
    public_api: PublicApi, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("sys.stdin", BinaryStdin(b"some audio"))
    assert await run(public_api, "transcribe", "-") == ExitCode.OK
    assert public_api.uploads[0][1] == b"some audio"


async def test_the_url_is_asked_of_the_admin_socket(
    public_api: PublicApi, backend: FakeBackend, recording: Path, tmp_path: Path, capsys: Captured
) -> None:
    async with admin_socket(backend, tmp_path) as path, public_url(public_api.app) as backend.url:
        code = await in_thread(partial(main, ["transcribe", str(recording), "--socket", path]))
    assert code == ExitCode.OK


async def test_a_daemon_without_a_tcp_port_cannot_transcribe(
    backend: FakeBackend, recording: Path, tmp_path: Path, capsys: Captured
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        code = await in_thread(partial(main, ["transcribe", str(recording), "--socket", path]))
    assert code == ExitCode.FAILED
    assert "no TCP port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (404, "model_not_found", ExitCode.NOT_FOUND),
        (503, "server_busy", ExitCode.BUSY),
        (503, "insufficient_memory", ExitCode.INSUFFICIENT_MEMORY),
        (400, "invalid_request", ExitCode.FAILED),
    ],
)
@pytest.mark.parametrize("verb", ["transcribe", "listen", "say"])
async def test_refusals_of_the_public_api_have_the_same_exit_codes(
    public_api: PublicApi, recording: Path, capsys: Captured, verb: str, status: int, code: str, expected: ExitCode
) -> None:
    public_api.refusal = (status, code)
    extra = ["-o", str(recording.with_name("out.wav"))] if verb == "say" else []
    assert await run(public_api, verb, str(recording), *extra) == expected
    assert f"refused: {code}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "code"), [("ftp://x", 1), ("http://", 1), ("http://h:port", 1), ("http://127.0.0.1:1", 3)]
)
def test_urls_that_cannot_be_used_are_named(recording: Path, capsys: Captured, url: str, code: int) -> None:
    for verb in ("transcribe", "listen"):
        assert main([verb, str(recording), "--url", url]) == code
        assert url in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["transcribe", "listen"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: Captured, verb: str) -> None:
    path = tmp_path / "nothing.wav"
    assert main([verb, str(path), "--url", "http://127.0.0.1:1"]) == ExitCode.FAILED
    assert f"{path}: No such file" in capsys.readouterr().err


async def test_say_writes_a_wav_file(public_api: PublicApi, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "said.wav"
    assert await run(public_api, "say", "Good morning.", "-o", str(path), "--voice", "joe", "--json") == ExitCode.OK
    assert _seconds(path) == 1.0
    assert public_api.speech == [{"input": "Good morning.", "voice": "joe"}]
    answer = json.loads(capsys.readouterr().out)
    assert answer["timing"] == {"wall_ms": 12.5, "audio_duration_ms": 1000.0}


async def test_say_reads_its_text_from_standard_input(
    public_api: PublicApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("From a pipe."))
    assert await run(public_api, "say", "-", "-o", str(tmp_path / "said.wav")) == ExitCode.OK
    assert public_api.speech == [{"input": "From a pipe."}]


async def test_say_writes_to_standard_output(public_api: PublicApi, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert await run(public_api, "say", "Hello.", "-o", "-") == ExitCode.OK
    assert capfdbinary.readouterr().out.startswith(b"RIFF")


async def test_say_plays_what_was_said(
    public_api: PublicApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    played = tmp_path / "played"
    _install(tmp_path, "aplay", f"cat > {played}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert await run(public_api, "say", "Hello.") == ExitCode.OK
    assert _seconds(played) == 1.0


def test_say_without_a_player_asks_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["say", "Hello.", "--url", "http://127.0.0.1:1"]) == ExitCode.FAILED
    assert "-o FILE" in capsys.readouterr().err


def _seconds(path: Path) -> float:
    with wave.open(str(path)) as file:
        return file.getnframes() / file.getframerate()


def _install(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
