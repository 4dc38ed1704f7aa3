"""The command line: the reference's flags, and how they meet the configuration."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audiocpp.daemon import cli
from audiocpp.daemon.flags import CONFIG_FLAGS, UsageError, flag_parser, known_flags, overrides_of, read_flags

REFERENCE = {
    "--config": "server.json",
    "--host": "0.0.0.0",
    "--port": "9000",
    "--backend": "cpu",
    "--device": "0",
    "--threads": "2",
    "--ui": None,
    "--no-ui": None,
    "--ui-management": None,
    "--busy-timeout-ms": "1000",
    "--max-loaded-models": "1",
    "--idle-unload-ms": "5000",
    "--min-free-memory-mb": "100",
    "--resample-kernel-cache-mb": "0",
    "--model-spec-override": "specs",
    "--voice-dir": "voices",
    "--cors-origins": "*",
    "--frontend-listener": "https",
    "--frontend-option": "cert_file=a.pem",
    "--parallel-jobs": None,
    "--log": None,
    "--log-file": "server.log",
    "--load-progress": "1",
    "--list-devices": None,
    "--json": None,
    "--version": None,
    "--help": None,
}
"""Every flag of the reference, with a value where it takes one."""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder with a `server.json` of the given keys: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str, **keys: Any) -> tuple[int, str, str]:
        document = {"models": [{"id": "vad", "family": "silero_vad"}], **keys}
        (tmp_path / "server.json").write_text(json.dumps(document))
        status = cli.main(argv)
        return status, *capsys.readouterr()

    return run


def effective(run: Run, *argv: str, **keys: Any) -> dict[str, Any]:
    status, out, err = run("--config", "server.json", "--check-config", *argv, **keys)
    assert status == 0, err
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


def test_every_flag_of_the_reference_is_known() -> None:
    words = [word for flag, value in REFERENCE.items() for word in (flag, value) if word is not None]
    assert read_flags(words).unknown == []
    assert set(REFERENCE) <= set(known_flags())


def test_flags_override_the_configuration(run: Run) -> None:
    flags = ("--port", "9000", "--threads", "3", "--cors-origins", "*", "--busy-timeout-ms", "7", "--ui-management")
    found = effective(run, *flags, port=1, threads=1, busy_timeout_ms=1)
    assert (found["port"], found["threads"], found["busy_timeout_ms"]) == (9000, 3, 7)
    assert (found["cors_origins"], found["ui_management"]) == ("*", True)


def test_a_flag_that_is_not_given_leaves_the_configuration_alone(run: Run) -> None:
    assert set(overrides_of(read_flags([]))) == set(CONFIG_FLAGS)
    assert set(overrides_of(read_flags([])).values()) == {None}
    assert effective(run, port=1234, ui=False, ui_management=True)["port"] == 1234


@pytest.mark.parametrize(
    ("flags", "configured", "ui"),
    [
        ((), True, True),
        ((), False, False),
        (("--ui",), False, True),
        (("--no-ui",), True, False),
        (("--ui", "--no-ui"), True, False),
        (("--no-ui", "--ui"), True, False),
    ],
)
def test_no_ui_wins(run: Run, flags: tuple[str, ...], configured: bool, ui: bool) -> None:
    assert effective(run, *flags, ui=configured)["ui"] is ui


def test_of_a_repeated_flag_the_first_counts(run: Run) -> None:
    assert effective(run, "--port", "1", "--port", "2")["port"] == 1


def test_relative_paths_of_flags_count_from_the_working_directory(run: Run, tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    assert effective(run, "--voice-dir", "voices")["voice_dir"] == str(tmp_path / "voices")


def test_options_of_the_further_listener_are_gathered(run: Run) -> None:
    flags = ("--frontend-option", "cert_file=a=b", "--frontend-option", "empty=", "--frontend-option", "empty=late")
    options = read_flags(["--frontend-listener", "https", *flags])
    assert overrides_of(options)["frontend_options"] == {"cert_file": "a=b", "empty": ""}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--frontend-option", "a=b"), "frontend_options: need a frontend_listener"),
        (("--frontend-listener", "https", "--frontend-option", "=b"), "expected KEY=VALUE"),
        (("--frontend-listener", "https", "--frontend-option", "a"), "expected KEY=VALUE"),
        (("--port", "x"), "argument --port: invalid int value: 'x'"),
        (("--port", "70000"), "port: expected integer <= 65535, got 70000"),
        (("--port",), "argument --port: expected one argument"),
        (("--device", "-1"), "device: expected integer >= 0, got -1"),
        (("--backend", "best"), "backend: expected one of"),
        (("--load-progress", "2"), "argument --load-progress: invalid choice: 2"),
        (("--host", "localhost"), "host: expected a literal IP address"),
        (("--config",), "argument --config: expected one argument"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_1(run: Run, flags: tuple[str, ...], message: str) -> None:
    status, out, err = run("--config", "server.json", "--check-config", *flags)
    assert (status, out) == (1, "")
    assert err.startswith("audiocpp_server failed: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_configuration_or_the_page_is_needed(run: Run) -> None:
    for flags in ((), ("--no-ui",), ("--port", "0")):
        assert run(*flags) == (1, "", "audiocpp_server failed: --config FILE or --ui is required\n")


def test_the_page_alone_starts_without_models(run: Run) -> None:
    status, out, _ = run("--ui", "--check-config")
    assert status == 0
    assert (json.loads(out)["models"], json.loads(out)["lazy_load"]) == ([], True)


def test_an_unknown_flag_is_a_warning_that_names_the_nearest(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert effective(run, "--prot", "80", "--port", "81")["port"] == 81
    messages = [record.getMessage() for record in caplog.records if record.name == "audiocpp.daemon.cli"]
    assert messages == ["--prot: unknown flag, ignored; did you mean --port?", "80: unknown flag, ignored"]


def test_an_unknown_flag_is_an_error_when_strict(run: Run) -> None:
    status, _, err = run("--config", "server.json", "--check-config", "--strict-config", "--prot", "80")
    assert (status, err) == (1, "audiocpp_server failed: --prot: unknown flag; did you mean --port?\n")


def test_help_begins_as_launchers_expect(run: Run) -> None:
    for flag in ("--help", "-h"):
        status, out, _ = run(flag)
        assert status == 0
        assert out.startswith("audiocpp_server [--config")
        assert [name for name in known_flags() if name not in out] == []


def test_version_is_printed(run: Run) -> None:
    status, out, _ = run("--version")
    assert status == 0
    assert out.startswith("audiocppd 0.")


def test_devices_come_first(run: Run) -> None:
    status, out, _ = run("--version", "--help", "--list-devices")
    assert status == 0
    assert out.splitlines()[0].startswith("available_devices=")
    status, out, _ = run("--json", "--list-devices", "--config", "missing.json")
    assert (status, json.loads(out)["object"]) == (0, "list")


def test_values_may_be_given_after_an_equals_sign(run: Run) -> None:
    assert effective(run, "--port=82")["port"] == 82


def test_a_flag_is_not_abbreviated() -> None:
    assert read_flags(["--por", "80"]).unknown == ["--por", "80"]


def test_usage_errors_do_not_end_the_process() -> None:
    with pytest.raises(UsageError):
        flag_parser().parse_args(["--port"])
