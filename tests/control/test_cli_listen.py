"""`listen` against a live route on a real port."""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.control.test_cli import Terminal
from tests.fakes.admin_server import in_thread, public_url
from tests.fakes.public_api import PublicApi, wav_file

from audiocpp.control.cli import main
from audiocpp.control.cli.live_text import LiveText
from audiocpp.control.cli.output import Output
from audiocpp.control.protocol import ExitCode

Captured = pytest.CaptureFixture[str]

SECOND = bytes(range(256)) * 125  # one second of s16le at 16 kHz

TWO_SEGMENTS = [
    {"type": "transcript.text.delta", "delta": "It was the best of times."},
    {"type": "transcript.segment", "id": 0, "start": 0.0, "end": 0.5, "text": "It was the best of times."},
    {"type": "transcript.text.partial", "text": " It was"},
    {"type": "transcript.text.delta", "delta": " It was the worst."},
    {"type": "transcript.segment", "id": 1, "start": 0.5, "end": 1.0, "text": "It was the worst."},
    {"type": "transcript.text.done", "text": "It was the best of times. It was the worst."},
]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "speech.wav"
    path.write_bytes(wav_file(SECOND))
    return path


async def run(api: PublicApi, *arguments: str) -> int:
    async with public_url(api.app) as url:
        return await in_thread(partial(main, ["listen", *arguments, "--url", url]))


async def test_all_samples_of_a_file_arrive_in_the_format_that_was_announced(
    public_api: PublicApi, recording: Path, capsys: Captured
) -> None:
    assert await run(public_api, str(recording), "--pace", "0", "--model", "moonshine-live") == ExitCode.OK
    assert public_api.pcm == SECOND
    assert public_api.query == {
        "model": "moonshine-live",
        "sample_rate": "16000",
        "channels": "1",
        "sample_format": "s16le",
    }
    assert capsys.readouterr().out == "It was the best of times.\n"


async def test_a_file_is_streamed_at_the_pace_of_speech(
    public_api: PublicApi, recording: Path, capsys: Captured
) -> None:
    started = trio.current_time()
    assert await run(public_api, str(recording), "--pace", "4") == ExitCode.OK
    assert 0.24 <= trio.current_time() - started < 1.0  # one second of audio, four times as fast
    assert public_api.pcm_frames == 50


async def test_a_pipe_has_one_line_for_each_segment(public_api: PublicApi, recording: Path, capsys: Captured) -> None:
    public_api.events = TWO_SEGMENTS
    assert await run(public_api, str(recording), "--pace", "0") == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == ["It was the best of times.", "It was the worst."]


async def test_json_prints_the_events_as_they_come(public_api: PublicApi, recording: Path, capsys: Captured) -> None:
    public_api.events = TWO_SEGMENTS
    assert await run(public_api, str(recording), "--pace", "0", "--json", "--partials") == ExitCode.OK
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["type"] for event in events] == ["session.created", *(event["type"] for event in TWO_SEGMENTS)]
    assert public_api.query["partials"] == "true"


async def test_raw_pcm_on_standard_input_is_sent_as_declared(
    public_api: PublicApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "raw"
    path.write_bytes(SECOND)
    with path.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        options = ("--pace", "0", "--rate", "8000", "--channels", "2", "--format", "f32le")
        assert await run(public_api, "-", *options) == ExitCode.OK
    assert public_api.pcm == SECOND
    assert public_api.query == {"sample_rate": "8000", "channels": "2", "sample_format": "f32le"}


async def test_the_microphone_is_read_through_arecord(
    public_api: PublicApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes(SECOND)
    _install(tmp_path, "arecord", f"exec cat {raw}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert await run(public_api) == ExitCode.OK
    assert public_api.pcm == SECOND


async def test_a_recorder_that_fails_is_named(
    public_api: PublicApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    _install(tmp_path, "arecord", "exit 3")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert await run(public_api) == ExitCode.FAILED
    assert "arecord failed with status 3" in capsys.readouterr().err


def test_without_a_recorder_the_choices_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["listen", "--url", "http://127.0.0.1:1"]) == ExitCode.FAILED
    assert "arecord" in capsys.readouterr().err


def test_a_file_that_needs_ffmpeg_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    path = tmp_path / "speech.mp3"
    path.write_bytes(b"ID3 not a WAV file")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["listen", str(path), "--url", "http://127.0.0.1:1"]) == ExitCode.FAILED
    assert "Install ffmpeg" in capsys.readouterr().err


async def test_an_error_event_ends_it_with_the_exit_code_of_its_code(
    public_api: PublicApi, recording: Path, capsys: Captured
) -> None:
    error = {"message": "no memory", "type": "insufficient_memory", "code": "insufficient_memory"}
    public_api.events = [{"type": "error", "error": error}]
    assert await run(public_api, str(recording), "--pace", "0") == ExitCode.INSUFFICIENT_MEMORY


@pytest.mark.parametrize(
    ("close_code", "expected"),
    [(1013, ExitCode.BUSY), (1012, ExitCode.NOT_REACHABLE), (1008, ExitCode.FAILED), (1000, ExitCode.FAILED)],
)
async def test_a_close_before_the_end_is_a_failure(
    public_api: PublicApi, recording: Path, capsys: Captured, close_code: int, expected: ExitCode
) -> None:
    public_api.events, public_api.close_code = [], close_code
    assert await run(public_api, str(recording), "--pace", "0") == expected
    assert str(close_code) in capsys.readouterr().err


async def test_interrupting_ends_the_audio_and_still_gets_the_text(public_api: PublicApi, tmp_path: Path) -> None:
    recording = tmp_path / "long.wav"
    recording.write_bytes(wav_file(SECOND * 60))
    ended: list[subprocess.CompletedProcess[bytes]] = []

    async def listen(url: str, *, task_status: trio.TaskStatus[trio.Process]) -> None:
        script = "import sys; from audiocpp.control.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", script, "listen", str(recording), "--url", url]
        run_process = partial(trio.run_process, capture_stdout=True, check=False, task_status=task_status)
        ended.append(await run_process(command))

    async with public_url(public_api.app) as url, trio.open_nursery() as nursery:
        process = await nursery.start(listen, url)
        await public_api.first_audio.wait()
        process.send_signal(signal.SIGINT)
    assert ended[0].returncode == ExitCode.OK
    assert ended[0].stdout == b"It was the best of times.\n"
    assert len(public_api.pcm) < len(SECOND * 60)


def test_a_terminal_shows_the_line_being_spoken_and_keeps_the_final_one() -> None:
    terminal = Terminal()
    text = LiveText(Output(as_json=False, stdout=terminal))
    for event in TWO_SEGMENTS:
        text.show(event)
    assert _screen(terminal.getvalue()) == ["It was the best of times.", "It was the worst.", ""]


def _screen(written: str) -> list[str]:
    """What is left to see after carriage returns with clear-to-end-of-line."""
    return [line.rpartition("\r\x1b[K")[2] for line in written.split("\n")]


def _install(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
