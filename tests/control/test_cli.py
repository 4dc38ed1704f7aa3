"""The operator's verbs: what they print for people, for pipes and for programs."""

import json
from collections.abc import Callable
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from tests.fakes.admin_backend import MODEL_BYTES, FakeBackend, Refusal
from tests.fakes.admin_server import admin_socket, in_thread

from audiocpp.control.cli import main
from audiocpp.control.cli.output import Column, Output, mebibytes
from audiocpp.control.cli.progress import ProgressBar, bar_text
from audiocpp.control.cli.verb import VERBS
from audiocpp.control.protocol import ExitCode

Captured = pytest.CaptureFixture[str]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


async def run(path: str, *arguments: str) -> int:
    return await in_thread(partial(main, [*arguments, "--socket", path]))


async def test_ps_in_a_pipe_is_tab_separated_without_titles(
    backend: FakeBackend, tmp_path: Path, capsys: Captured
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, "ps") == ExitCode.OK
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("\t")[:6] == ["piper", "ready", "4242", "cpu", "4", "1"]
    assert str(MODEL_BYTES) in line.split("\t")


async def test_ps_on_a_terminal_is_a_table_with_titles(
    backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    async with admin_socket(backend, tmp_path) as path:
        await run(path, "ps")
    titles, row = terminal.getvalue().splitlines()
    assert titles.startswith("ID     STATE  PID")
    assert row.startswith("piper  ready  4242")
    assert "97.0 MiB" in row
    assert "REASON" not in titles


@pytest.mark.parametrize(
    ("verb", "field"), [("models", "models"), ("ps", "models"), ("packages", "packages"), ("status", "pid")]
)
async def test_json_of_a_reading_verb_is_the_reply_and_the_schema(
    backend: FakeBackend, tmp_path: Path, capsys: Captured, verb: str, field: str
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, verb, "--json") == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == 1
    assert answer[field]


@pytest.mark.parametrize("command", [["explain", "moonshine"], ["load", "moonshine", "--dry-run"]])
async def test_explain_prints_placement_memory_limits_and_evictions(
    backend: FakeBackend, tmp_path: Path, capsys: Captured, command: list[str]
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, *command) == ExitCode.OK
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == "moonshine is unloaded and fits after unloading piper"
    for part in (
        "97.0 MiB (measured before)",
        "the host's free memory allows",
        "onnxruntime:CPUExecutionProvider",
        "cuda",
    ):
        assert part in printed
    assert backend.states["moonshine"] == "unloaded"


async def test_common_options_may_stand_before_the_verb(backend: FakeBackend, tmp_path: Path, capsys: Captured) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await in_thread(partial(main, ["--json", "--socket", path, "ps"])) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["models"]


async def test_load_says_what_it_did_and_that_a_second_one_does_nothing(
    backend: FakeBackend, tmp_path: Path, capsys: Captured
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, "load", "moonshine") == ExitCode.OK
        assert await run(path, "load", "moonshine") == ExitCode.OK
        assert await run(path, "load", "moonshine", "--json") == ExitCode.OK
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "moonshine ready, in 0.47 s, 97.0 MiB resident, on cpu"
    assert second == "moonshine was ready already"
    assert json.loads(third)["changed"] is False


async def test_load_without_waiting_leaves_the_model_loading(
    backend: FakeBackend, tmp_path: Path, capsys: Captured
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, "load", "moonshine", "--no-wait", "--json") == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert (answer["state"], answer["seconds"]) == ("loading", None)


async def test_unload_hands_its_options_on_and_says_what_was_released(
    backend: FakeBackend, tmp_path: Path, capsys: Captured
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, "unload", "piper", "moonshine", "--force", "--timeout", "2.5") == ExitCode.OK
        assert await run(path, "unload", "--all", "--json") == ExitCode.OK
    text, answer = capsys.readouterr().out.splitlines()
    assert text == "unloaded piper, 97.0 MiB released (not resident: moonshine)"
    assert json.loads(answer)["changed"] is False
    assert backend.unload_calls == [(["piper", "moonshine"], True, 2.5), (None, False, 30.0)]


async def test_pull_shows_the_licence_first_and_no_bar_in_a_pipe(
    backend: FakeBackend, tmp_path: Path, capsys: Captured
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, "pull", "moonshine_tiny_en", "silero_vad") == ExitCode.OK
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert "licence MIT" in lines[0]
    assert lines[1] == "moonshine_tiny_en: installed in 1.5 s, /models/moonshine_tiny_en"
    assert lines[3] == "silero_vad: already complete, /models/silero_vad"


async def test_pull_with_json_is_a_line_an_event(backend: FakeBackend, tmp_path: Path, capsys: Captured) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, "pull", "moonshine_tiny_en", "--json") == ExitCode.OK
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["package", "progress", "progress", "progress", "done"]
    assert {event["schema"] for event in events} == {1}


async def test_version_tells_both_versions(backend: FakeBackend, tmp_path: Path, capsys: Captured) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, "version") == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[1] == "audiocppd 0.1.0"


def test_version_needs_no_daemon(tmp_path: Path, capsys: Captured) -> None:
    assert main(["version", "--json", "--socket", str(tmp_path / "none")]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["daemon"] is None


async def test_an_error_is_text_for_people_and_an_object_for_programs(
    backend: FakeBackend, tmp_path: Path, capsys: Captured
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, "load", "nothing", "--json") == ExitCode.NOT_FOUND
    captured = capsys.readouterr()
    assert captured.err.startswith("audiocppctl: no model 'nothing'")
    error = json.loads(captured.out)["error"]
    assert (error["code"], error["exit_code"]) == ("model_not_found", 5)


def _fails_with(code: str, *, status: int) -> Callable[[FakeBackend], list[str]]:
    def arrange(backend: FakeBackend) -> list[str]:
        backend.failure = Refusal(code, status=status)
        return ["load", "moonshine"]

    return arrange


EXITS: dict[ExitCode, Callable[[FakeBackend], list[str]]] = {
    ExitCode.OK: lambda _: ["ps"],
    ExitCode.FAILED: _fails_with("model_failed", status=503),
    ExitCode.PERMISSION: _fails_with("forbidden", status=403),
    ExitCode.NOT_FOUND: lambda _: ["load", "nothing"],
    ExitCode.BUSY: _fails_with("server_busy", status=503),
    ExitCode.INSUFFICIENT_MEMORY: _fails_with("insufficient_memory", status=503),
    ExitCode.TIMEOUT: _fails_with("request_timeout", status=408),
    ExitCode.VERSION_MISMATCH: _fails_with("unknown_path", status=404),
}


@pytest.mark.parametrize("expected", EXITS)
async def test_exit_code_of_what_the_daemon_replies(
    backend: FakeBackend, tmp_path: Path, capsys: Captured, expected: ExitCode
) -> None:
    async with admin_socket(backend, tmp_path) as path:
        assert await run(path, *EXITS[expected](backend)) == expected
    assert bool(capsys.readouterr().err) is (expected is not ExitCode.OK)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["load"],
        ["unload"],
        ["unload", "piper", "--all"],
        ["load", "piper", "--timeout", "0"],
        ["load", "piper", "--timeout", "soon"],
        ["ps", "--jso"],
        ["listen", "--pace", "-1"],
    ],
)
def test_exit_code_of_a_wrong_command_line(capsys: Captured, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == ExitCode.USAGE
    assert "usage: audiocppctl" in capsys.readouterr().err


def test_exit_code_of_a_daemon_that_is_not_there(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "none.sock"
    assert main(["ps", "--socket", str(path)]) == ExitCode.NOT_REACHABLE
    assert str(path) in capsys.readouterr().err


def test_exit_code_of_another_program_at_that_path(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "file"
    path.write_text("no socket")
    assert main(["ps", "--socket", str(path)]) == ExitCode.NOT_REACHABLE
    assert "nobody listens" in capsys.readouterr().err


def test_every_exit_code_has_its_test() -> None:
    assert {*EXITS, ExitCode.USAGE, ExitCode.NOT_REACHABLE} == set(ExitCode)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_of_each_verb_shows_an_example_that_parses(capsys: Captured, verb: object) -> None:
    import shlex

    from audiocpp.control.cli.command import make_parser

    with pytest.raises(SystemExit) as ended:
        main([verb.name, "--help"])
    assert ended.value.code == ExitCode.OK
    assert verb.example in capsys.readouterr().out
    assert make_parser().parse_args(shlex.split(verb.example)[1:]).verb is verb


def test_a_table_aligns_its_columns_and_marks_what_is_not_known() -> None:
    terminal = Terminal()
    columns = [Column("ID", "id"), Column("MEMORY", "bytes", mebibytes), Column("WHY", "why")]
    rows = [{"id": "a-long-name", "bytes": 3 * 2**20, "why": None}, {"id": "b", "bytes": None, "why": "x"}]
    Output(as_json=False, stdout=terminal).table(columns, rows)
    assert terminal.getvalue().splitlines() == [
        "ID           MEMORY   WHY",
        "a-long-name  3.0 MiB  -",
        "b            -        x",
    ]


def test_a_table_leaves_out_columns_that_no_row_fills_but_not_zeros() -> None:
    terminal = Terminal()
    columns = [Column("ID", "id"), Column("QUEUED", "queued"), Column("LATE", "late", str), Column("WHY", "why")]
    Output(as_json=False, stdout=terminal).table(columns, [{"id": "a", "queued": 0, "late": False, "why": None}])
    assert terminal.getvalue().splitlines() == ["ID  QUEUED", "a   0"]


def test_a_pipe_has_every_column() -> None:
    pipe = StringIO()
    Output(as_json=False, stdout=pipe).table([Column("ID", "id"), Column("WHY", "why")], [{"id": "a", "why": None}])
    assert pipe.getvalue() == "a\t\n"


def test_a_field_cannot_break_a_line_of_a_pipe() -> None:
    pipe = StringIO()
    rows = [{"id": "a", "why": "first\nsecond\tthird"}]
    Output(as_json=False, stdout=pipe).table([Column("ID", "id"), Column("WHY", "why")], rows)
    assert pipe.getvalue() == "a\tfirst second third\n"


def test_a_progress_bar_is_rewritten_and_cleared_on_a_terminal_only() -> None:
    terminal, pipe = Terminal(), StringIO()
    for stream in (terminal, pipe):
        with ProgressBar(stream) as bar:
            bar.show("a.onnx", 50, 100)
    assert "50%" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert pipe.getvalue() == ""


def test_progress_without_a_total_counts_what_is_done() -> None:
    assert bar_text("a.onnx", 3 * 2**20, None) == "3.0 MiB  a.onnx"
    assert bar_text("a.onnx", 5, 4).startswith("[########################] 100%")
