"""`log_request_body`: what of a body is in the log, and what never is."""

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.http.body_log import MAX_LINE, MAX_PARSED_BYTES, log_json
from audiocpp.engines.tasks import AudioChunk

LOGGER = "audiocpp.daemon.http.body_log"
AUDIO = base64.b64encode(b"FAKE" + bytes(range(256)) * 40).decode()


async def post(folder: Path, path: str, body: bytes, *, on: bool = True, content_type: str = "application/json") -> Any:
    script = Script(events=[AudioChunk(pcm=bytes(4), sample_rate=22050)])
    client = fake_app(folder, script, log_request_body=on).test_client()
    with trio.fail_after(5):
        return await client.post(path, data=body, headers={"Content-Type": content_type, "Authorization": "Bearer k"})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(record)["body"] for record in caplog.records if record.name == LOGGER]


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_a_json_body_is_one_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert (await post(tmp_path, "/v1/audio/speech", b'{"input": "hello", "more": 3}')).status_code == 200
    assert [json.loads(line) for line in lines(caplog)] == [{"input": "hello", "more": 3}]


async def test_it_is_off_unless_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await post(tmp_path, "/v1/audio/speech", b'{"input": "hello"}', on=False)
    assert lines(caplog) == []
    assert "hello" not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        {"model": "vad", "request": {"audio_base64": AUDIO}},
        {"model": "vad", "audio_base64": f"data:audio/wav;base64,{AUDIO}"},
        {"input": "hello", "voice_ref": {"type": "base64", "data": AUDIO}},
        {"input": "hello", "voice_ref": AUDIO},
        {"input": [{"anything": f"text before {AUDIO}"}]},
    ],
)
async def test_audio_is_never_in_it(tmp_path: Path, caplog: pytest.LogCaptureFixture, body: dict[str, Any]) -> None:
    await post(tmp_path, "/v1/audio/speech", json.dumps(body).encode())
    (line,) = lines(caplog)
    assert AUDIO[:65] not in line
    assert "characters)" in line


def test_secrets_are_never_in_it(caplog: pytest.LogCaptureFixture) -> None:
    log_json(b'{"api_key": "s3cret", "options": {"hf_token": "s3cret", "Authorization": ["s3cret"]}, "max_tokens": 5}')
    (line,) = lines(caplog)
    assert "s3cret" not in line
    assert json.loads(line)["max_tokens"] == 5


@pytest.mark.parametrize(
    "body",
    [
        b'{"input": "%s"}' % (b"word " * 1000),
        b'{"input": ["%s"]}' % b'", "'.join([b"word"] * 100_000),
        b'{"input": "%s"}' % (b"word " * (MAX_PARSED_BYTES // 5)),
        b"[" * 100_000,
        b"\xff\xfe",
        b"",
    ],
    ids=["long text", "many texts", "large", "deep", "not text", "empty"],
)
def test_a_line_is_bounded_whatever_is_sent(caplog: pytest.LogCaptureFixture, body: bytes) -> None:
    log_json(body)
    (line,) = lines(caplog)
    assert len(line) < MAX_LINE + 100


async def test_of_a_form_names_sizes_and_fields_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    body = head % (b"file", b"FAKE") + head % (b"prompt", b"names") + head % (b"api_key", b"s3cret") + b"--b--\r\n"
    await post(tmp_path, "/v1/audio/transcriptions", body, content_type="multipart/form-data; boundary=b")
    (line,) = lines(caplog)
    assert json.loads(line) == [
        {"name": "file", "bytes": 4},
        {"name": "prompt", "bytes": 5, "value": "names"},
        {"name": "api_key", "bytes": 6, "value": "(hidden)"},
    ]
