"""Texts and streams of speech that other servers of this kind got wrong, as people reported it
(`tests/data/reports.json`).
"""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.daemon_process import MODELS, DaemonProcess, eventually, running_daemon
from tests.integration.passages import word_errors
from tests.integration.round_trip import MAX_WORD_ERRORS, spoken_words, words

from audiocpp.control.client import AdminClient

pytestmark = pytest.mark.integration

SENTENCE = "It was the best of times, it was the worst of times."
PANGRAM = "the quick brown fox jumps over the lazy dog and then sits in the warm sun "
VOICE_RATE = 22_050
ANSWER_S = 3 * 0.1
FREE_S = 3 * 1.0
"""Three times what must hold on an idle machine."""
CROWD = 16
REQUESTS = "audiocpp_http_requests_total"


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


def body_of(text: str, **fields: Any) -> dict[str, Any]:
    """A request whose speech is the same every time."""
    return {"model": "piper", "input": text, "options": {"noise_scale": 0, "noise_w": 0}, **fields}


def speak(client: httpx.Client, text: str, **fields: Any) -> bytes:
    response = client.post("/v1/audio/speech", json=body_of(text, **fields))
    assert response.status_code == 200, response.text
    return response.content


def transcript(client: httpx.Client, data: bytes) -> str:
    response = client.post("/v1/audio/transcriptions", files={"file": ("a", data)}, data={"model": "moonshine"})
    assert response.status_code == 200, response.text
    return str(response.json()["text"])


@pytest.mark.parametrize("stream", [{}, {"stream_format": "audio"}], ids=["whole", "streamed"])
def test_long_text_without_punctuation_is_all_spoken(client: httpx.Client, stream: dict[str, str]) -> None:
    """R29"""
    text = PANGRAM * 9
    assert len(text) > 600
    heard = transcript(client, speak(client, text, response_format="wav", **stream))
    assert word_errors(spoken_words(text), words(heard)) <= MAX_WORD_ERRORS


def test_one_endless_word_is_spoken_in_pieces(client: httpx.Client) -> None:
    """R29"""
    tenth, whole = (len(speak(client, "banana" * count, response_format="pcm", speed=2.0)) for count in (33, 333))
    assert whole > 8 * tenth


@pytest.mark.parametrize("stream", [{}, {"stream_format": "audio"}, {"stream_format": "sse"}])
@pytest.mark.parametrize("text", ["", "   ", "!?...", "\n\n", "<break/>"])
def test_what_cannot_be_spoken_is_refused_before_a_reply_begins(
    client: httpx.Client, text: str, stream: dict[str, str]
) -> None:
    """R29"""
    response = client.post("/v1/audio/speech", json=body_of(text, **stream))
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == "input"


def test_figures_are_heard_as_the_numbers_they_are(client: httpx.Client) -> None:
    """R31"""
    text = "They counted 3,497 items. The box holds 999 of them. We paid $99,070.01 yesterday."
    assert word_errors(spoken_words(text), words(transcript(client, speak(client, text)))) <= MAX_WORD_ERRORS


def test_markup_is_not_heard(client: httpx.Client) -> None:
    """R35"""
    text = (
        '**Please note** that you can see [the manual](http://y) now. Good <break time="800ms"/> morning to you & me.'
    )
    expected = "Please note that you can see the manual now. Good morning to you and me."
    assert word_errors(expected, words(transcript(client, speak(client, text)))) <= MAX_WORD_ERRORS


def test_nobody_waits_for_the_speech_of_a_client_that_left(tmp_path: Path, models_root: Path) -> None:
    """R41"""
    models = [{**model, "slots": 1} for model in MODELS if model["id"] == "piper"]
    with running_daemon(tmp_path, models_root, models=models) as daemon, daemon.client() as client:
        speak(client, SENTENCE)
        body = body_of(SENTENCE * 180, stream_format="audio")
        with client.stream("POST", "/v1/audio/speech", json=body) as response:
            pieces = response.iter_raw()
            assert next(pieces)
            assert daemon.ps()["piper"]["active_slots"] == 1
        left = time.monotonic()
        answer = client.post("/v1/audio/speech", json=body_of("Yes.", busy_timeout_ms=int(FREE_S * 1e3)))
        assert answer.status_code == 200, answer.text
        assert time.monotonic() - left < 2 * FREE_S
        counted = client.get("/metrics").text
        assert f'{REQUESTS}{{method="POST",route="/v1/audio/speech",status="499"}} 1.0' in counted
        assert f'{REQUESTS}{{method="POST",route="/v1/audio/speech",status="200"}} 2.0' in counted
        assert "audiocpp_request_errors_total{" not in counted
        assert not [record for record in daemon.log if record["level"] in ("warning", "error")]


def test_a_crowd_is_served_or_told_when_to_come_back_and_nothing_else_waits(tmp_path: Path, models_root: Path) -> None:
    """R43"""
    models = [{**model, "slots": 2} for model in MODELS if model["id"] == "piper"]
    with running_daemon(tmp_path, models_root, models=models) as daemon, ThreadPoolExecutor(CROWD) as pool:
        daemon.ctl("load", "piper")
        with daemon.client() as client:
            body = body_of(f"{SENTENCE} {SENTENCE}", busy_timeout_ms=1000)
            replies = [pool.submit(client.post, "/v1/audio/speech", json=body) for _ in range(CROWD)]
            admin = AdminClient([str(daemon.admin_socket)])
            eventually(lambda: row(admin)["queued_requests"], what="nobody waits")
            assert quickest(lambda: client.get("/health")) < ANSWER_S
            assert quickest(admin.ps) < ANSWER_S
            outcomes = Counter(outcome(reply.result()) for reply in replies)
        assert set(outcomes) <= {"answered", "busy"}
        assert outcomes["answered"] >= 2
        assert (row(admin)["active_slots"], row(admin)["queued_requests"]) == (0, 0)


def row(admin: AdminClient) -> dict[str, Any]:
    (row,) = admin.ps()["models"]
    return dict(row)


def quickest(call: Any) -> float:
    """Seconds of the quickest of five calls: the processor is fully used by others."""
    times = []
    for _ in range(5):
        started = time.monotonic()
        call()
        times.append(time.monotonic() - started)
    return min(times)


def outcome(reply: httpx.Response) -> str:
    if (
        reply.status_code == 503
        and reply.json()["error"]["code"] == "server_busy"
        and int(reply.headers["Retry-After"])
    ):
        return "busy"
    return "answered" if reply.status_code == 200 and reply.content.startswith(b"RIFF") else f"wrong: {reply.text}"


@pytest.mark.parametrize("voice", ["../../etc/passwd", "/etc/passwd", "a/../../x", "..", "joe/../joe"])
def test_a_path_as_voice_gets_one_answer_whether_or_not_the_file_exists(client: httpx.Client, voice: str) -> None:
    """R103"""

    def message(name: str) -> str:
        error = client.post("/v1/audio/speech", json=body_of(SENTENCE, voice=name)).json()["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", "voice")
        return str(error["message"]).replace(name, "NAME")

    assert message(voice) == message("nobody")
