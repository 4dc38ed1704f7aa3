"""One daemon shared by the tests that leave it as they found it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.daemon_process import DaemonProcess, running_daemon


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, models_root: Path) -> Iterator[DaemonProcess]:
    """A daemon with the four entries of the quick start, loaded on first use."""
    with running_daemon(tmp_path_factory.mktemp("daemon"), models_root) as running:
        yield running
