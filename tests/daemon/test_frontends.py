"""The configuration of frontends: what is refused, and where their files are looked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from audiocpp.daemon.config import load_config
from audiocpp.daemon.errors import ConfigError
from audiocpp.daemon.frontends import check_frontend

FILES = Path(__file__).parent.parent / "data" / "tls"
CERTIFICATE = str(FILES / "cert.pem")
KEY = str(FILES / "key.pem")


def check(folder: Path, *, overrides: Any = None, **config: Any) -> Any:
    path = folder / "server.json"
    document = {"models": [{"id": "vad", "family": "silero_vad"}], **config}
    path.write_text(json.dumps(document))
    return check_frontend(load_config(path, overrides or {}))


def test_without_a_frontend_nothing_is_encrypted(tmp_path: Path) -> None:
    assert check(tmp_path) is None
    assert check(tmp_path, frontend_listener="websocket") is None


def test_a_certificate_and_its_key_are_read(tmp_path: Path) -> None:
    options = {"cert_file": CERTIFICATE, "key_file": KEY}
    assert check(tmp_path, frontend_listener="https", frontend_options=options) is not None


def test_one_file_may_hold_both(tmp_path: Path) -> None:
    (tmp_path / "both.pem").write_bytes(Path(KEY).read_bytes() + Path(CERTIFICATE).read_bytes())
    assert check(tmp_path, frontend_listener="https", frontend_options={"cert_file": "both.pem"}) is not None


def test_files_lie_beside_the_configuration_those_of_flags_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "c.pem").write_bytes(Path(CERTIFICATE).read_bytes())
    (tmp_path / "k.pem").write_bytes(Path(KEY).read_bytes())
    monkeypatch.chdir(tmp_path)
    overrides = {"frontend_options": {"key_file": "k.pem"}}
    options = {"cert_file": "c.pem"}
    assert check(tmp_path / "conf", overrides=overrides, frontend_listener="https", frontend_options=options)


@pytest.mark.parametrize(
    ("listener", "options", "message"),
    [
        ("http2", {}, "frontend_listener: 'http2' is none of https, websocket"),
        ("https", {}, "frontend_options.cert_file: https needs a certificate"),
        ("https", {"cert_file": ""}, "frontend_options.cert_file: https needs a certificate"),
        ("https", {"cert_file": "gone.pem", "key_file": KEY}, "frontend_options.cert_file: .*gone.pem cannot be read"),
        ("https", {"cert_file": CERTIFICATE, "key_file": "gone"}, "frontend_options.key_file: .*gone cannot be read"),
        ("https", {"cert_file": KEY, "key_file": KEY}, "frontend_options: .*key.pem and .*key.pem cannot be used"),
        ("https", {"cert_file": CERTIFICATE}, "frontend_options: .*cert.pem and None cannot be used"),
        ("https", {"cert_file": CERTIFICATE, "key_file": str(FILES / "encrypted_key.pem")}, "cannot be used"),
        ("https", {"cert_file": CERTIFICATE, "key_file": KEY, "port": "1"}, "frontend_options.port: not an option"),
        ("websocket", {"cert_file": CERTIFICATE}, "frontend_options.cert_file: not an option of websocket; .*: none"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, listener: str, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}" if message.startswith("frontend") else message):
        check(tmp_path, frontend_listener=listener, frontend_options=options)
