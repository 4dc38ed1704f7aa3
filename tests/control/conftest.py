import pytest
from tests.fakes.admin_backend import FakeBackend
from tests.fakes.public_api import PublicApi


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def public_api() -> PublicApi:
    return PublicApi()


@pytest.fixture(autouse=True)
def no_daemon_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may reach a daemon that happens to run here."""
    for name in ("AUDIOCPP_SOCKET", "AUDIOCPP_URL", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
