"""What a model is expected to hold, learned and kept."""

import json
from pathlib import Path

import pytest

from audiocpp.daemon.estimates import FIXED_BYTES, Estimates, Measurement, estimate_by_rule


def holds(loaded_bytes: int, workspace_bytes: int = 0) -> Measurement:
    return Measurement(loaded_bytes=loaded_bytes, workspace_bytes=workspace_bytes)


def test_the_rule_counts_all_files_once_and_a_half_and_a_fixed_part(tmp_path: Path) -> None:
    for name, size in (("encoder.ort", 1000), ("decoder.ort", 3000)):
        (tmp_path / name).write_bytes(bytes(size))
    files = [tmp_path / "encoder.ort", tmp_path / "decoder.ort", tmp_path / "missing.ort"]
    assert estimate_by_rule(files) == 6000 + FIXED_BYTES


def test_a_measurement_outlives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state" / "memory.json"
    Estimates(path).learn("piper", holds(1234))
    assert Estimates(path).learned("piper") == holds(1234)
    assert Estimates(path).learned("moonshine") is None


def test_nearly_the_same_measurement_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    estimates = Estimates(path)
    estimates.learn("piper", holds(10_000))
    path.unlink()
    estimates.learn("piper", holds(10_100))
    assert not path.exists()
    estimates.learn("piper", holds(10_500))
    assert Estimates(path).learned("piper") == holds(10_500)


def test_a_larger_workspace_is_worth_writing(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    Estimates(path).learn("piper", holds(10_000))
    Estimates(path).learn("piper", holds(10_000, workspace_bytes=900))
    assert Estimates(path).learned("piper") == holds(10_000, workspace_bytes=900)


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": 1}', b"\x00\xff"])
def test_a_damaged_file_is_said_once_and_replaced(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "memory.json"
    path.write_bytes(content)
    estimates = Estimates(path)
    assert estimates.learned("piper") is None
    assert len(caplog.records) == 1
    estimates.learn("piper", holds(5))
    assert Estimates(path).learned("piper") == holds(5)


def test_a_file_of_another_version_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    path.write_text(json.dumps({"version": 99, "models": {"piper": {"loaded_bytes": 5}}}))
    assert Estimates(path).learned("piper") is None


def test_a_folder_that_cannot_be_written_costs_a_warning_not_the_estimate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    estimates = Estimates(tmp_path / "state" / "memory.json")
    estimates.learn("piper", holds(5))
    estimates.learn("piper", holds(500))
    assert estimates.learned("piper") == holds(500)
    assert len(caplog.records) == 1
