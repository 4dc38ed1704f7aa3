"""Which modules a command's entry point brings in: the daemon's is imported again by every worker process, and the
CLI must answer at once."""

import subprocess
import sys

import pytest

EVENT_LOOP = {"trio", "quart", "hypercorn", "asyncio", "anyio"}
SIGNALS = {"numpy", "onnxruntime", "soundfile", "soxr"}
REST = {"msgspec", "httpx", "platformdirs", "num2words"}


def imported_by(module: str) -> set[str]:
    """Top-level names of `sys.modules` after a fresh interpreter has imported `module`."""
    script = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    return set(run.stdout.split())


@pytest.mark.parametrize("module", ["audiocpp.daemon.cli", "audiocpp.control.cli"])
def test_entry_point_imports_nothing_heavy(module: str) -> None:
    imported = imported_by(module)
    assert "audiocpp" in imported
    assert not imported & (EVENT_LOOP | SIGNALS | REST)


def test_control_process_holds_no_numpy_and_no_runtime() -> None:
    assert not imported_by("audiocpp.daemon.services") & SIGNALS
