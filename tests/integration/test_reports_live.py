"""Live sessions that other servers of this kind lost, as people reported it (`tests/data/reports.json`)."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import trio
from tests.integration.daemon_process import DaemonProcess, eventually, running_daemon
from tests.integration.live_client import events, heard, pcm_of, session, transcript
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors
from tests.integration.recordings import PCM16_MONO_16K, riff

from audiocpp.control.client import AdminClient

pytestmark = pytest.mark.integration

PASSAGE = passage("beckett")
RATE = 16_000
IDLE_S = 1.0


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, models_root: Path) -> Iterator[DaemonProcess]:
    """A daemon that gives up clients who send nothing for `IDLE_S`."""
    limits = {"live_ingest": {"idle_timeout_ms": int(IDLE_S * 1e3)}}
    with running_daemon(tmp_path_factory.mktemp("impatient"), models_root, **limits) as daemon:
        daemon.ctl("load", "moonshine-live")
        yield daemon


@pytest.fixture(scope="module")
def pcm(audio_files: dict[str, Path]) -> bytes:
    return pcm_of(audio_files["beckett.wav"])


def is_active(daemon: DaemonProcess) -> bool:
    rows = AdminClient([str(daemon.admin_socket)]).ps()["models"]
    return any(row["active_slots"] for row in rows)


async def test_silence_that_is_sent_keeps_the_session(impatient: DaemonProcess, pcm: bytes) -> None:
    """R44"""
    tenth_of_a_second = bytes(RATE // 10 * 2)
    async with session(impatient) as socket:
        until = trio.current_time() + 2.5 * IDLE_S
        while trio.current_time() < until:
            await socket.send_message(tenth_of_a_second)
            await trio.sleep(0.1)  # at the pace of a microphone
        received, code = await transcript(socket, pcm)
    assert (received[-1]["type"], code) == ("transcript.text.done", 1000)
    assert word_errors(PASSAGE, received[-1]["text"]) <= MAX_WORD_ERRORS


async def test_a_minute_of_silence_loses_nothing_before_or_after_it(daemon: DaemonProcess, pcm: bytes) -> None:
    """R44"""
    text = await heard(daemon, pcm + bytes(60 * RATE * 2) + pcm)
    assert word_errors(f"{PASSAGE} {PASSAGE}", text) <= MAX_WORD_ERRORS


async def test_words_up_to_the_last_sample_are_in_the_final_text(
    daemon: DaemonProcess, audio_files: dict[str, Path], pcm: bytes
) -> None:
    """R46"""
    with daemon.client() as client:
        answer = await trio.to_thread.run_sync(
            lambda: client.post("/v1/tasks/run", json={"model": "vad", "audio": str(audio_files["beckett.wav"])}).json()
        )
    rate = int.from_bytes(audio_files["beckett.wav"].read_bytes()[24:28], "little")
    end = answer["segments"][-1]["end_sample"] * RATE // rate
    text = await heard(daemon, pcm[: 2 * end])
    assert word_errors(PASSAGE, text) <= MAX_WORD_ERRORS
    assert text.lower().rstrip(".!").endswith("fail better")


async def test_samples_split_between_frames_are_whole_again(daemon: DaemonProcess, pcm: bytes) -> None:
    """R48"""
    sizes = [3, 1, 0, 641, 5, 6399]
    async with session(daemon) as socket:
        at = 0
        while at < len(pcm):
            size = sizes[0]
            sizes.append(sizes.pop(0))
            await socket.send_message(pcm[at : at + size])
            at += size
        await socket.send_message(b"\x7f")  # half a sample too many
        await socket.send_message('{"type": "end"}')
        received, code = await events(socket)
    done = received[-1]
    assert (done["type"], code) == ("transcript.text.done", 1000)
    assert done["timing"]["audio_ms"] == pytest.approx(len(pcm) / 2 / RATE * 1e3, abs=0.1)
    assert done["text"] == await heard(daemon, pcm)


async def test_a_client_that_sends_nothing_is_told_and_its_place_is_free(impatient: DaemonProcess, pcm: bytes) -> None:
    """R50"""
    async with session(impatient) as socket:
        await socket.send_message(pcm[: 2 * RATE])
        received, code = await events(socket)
    assert code == 1008
    assert received[-1]["type"] == "error"
    assert "idle_timeout_ms" in received[-1]["error"]["message"]
    await trio.to_thread.run_sync(lambda: eventually(lambda: not is_active(impatient), limit_s=3.0))
    report = await trio.to_thread.run_sync(impatient.ctl, "unload", "moonshine-live")
    assert report["changed"]
    assert word_errors(PASSAGE, await heard(impatient, pcm)) <= MAX_WORD_ERRORS


@pytest.mark.parametrize("rate_hz", [None, 8000, 24_000, 48_000])
async def test_audio_is_taken_at_the_rate_that_the_session_declares(
    daemon: DaemonProcess, audio_files: dict[str, Path], rate_hz: int | None
) -> None:
    """R52"""
    pcm = pcm_of(audio_files["beckett.wav"], sample_rate=rate_hz or RATE)
    text = await heard(daemon, pcm, f"&sample_rate={rate_hz}" if rate_hz else "")
    assert word_errors(PASSAGE, text) <= MAX_WORD_ERRORS


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


@pytest.mark.parametrize("rate", ["0", "999", "384001", "-8000", "16k"])
def test_a_rate_that_no_microphone_has_is_refused_with_the_range(daemon: DaemonProcess, rate: str) -> None:
    """R52"""
    query = {"model": "moonshine-live", "sample_rate": rate}
    with daemon.client() as client:
        refusal = client.get("/v1/audio/transcriptions/live", params=query, headers=UPGRADE)
    assert refusal.status_code == 400
    assert refusal.json()["error"]["param"] == "sample_rate"
    assert "1000 to 384000" in refusal.json()["error"]["message"]


def chords() -> np.ndarray:
    """A melody of chords with decaying notes."""
    time_s = np.arange(RATE // 2) / RATE
    notes = [220.0 * 2 ** (step / 12) for step in (0, 3, 7, 12, 10, 5)]
    bars = [sum(np.sin(2 * np.pi * note * ratio * time_s) for ratio in (1, 1.26, 1.5)) for note in notes]
    return 0.2 * np.tile(np.concatenate([bar * np.exp(-3 * time_s) for bar in bars]), 10)


NOT_SPEECH = {
    "silence": np.zeros(30 * RATE),
    "noise at -60 dBFS": np.random.default_rng(7).normal(0, 1e-3, 30 * RATE),
    "music": chords(),
}


@pytest.mark.parametrize("name", NOT_SPEECH)
async def test_half_a_minute_without_speech_is_no_text(daemon: DaemonProcess, name: str) -> None:
    """R57"""
    pcm = (NOT_SPEECH[name] * 32767).astype("<i2").tobytes()
    assert len(pcm) == 30 * RATE * 2
    assert await heard(daemon, pcm) == ""

    def upload() -> httpx.Response:
        with daemon.client() as client:
            file = {"file": ("a", riff([PCM16_MONO_16K, (b"data", pcm)]))}
            return client.post("/v1/audio/transcriptions", files=file, data={"response_format": "verbose_json"})

    answer = (await trio.to_thread.run_sync(upload)).json()
    assert (answer["text"], answer["segments"]) == ("", [])


async def test_control_that_is_no_json_is_answered_and_the_session_goes_on(daemon: DaemonProcess, pcm: bytes) -> None:
    async with session(daemon) as socket:
        for text in ("hello", "{", "[]", '{"type": "dance"}', '{"type": 1}'):
            await socket.send_message(text)
            assert json.loads(await socket.get_message())["type"] == "error"
        received, code = await transcript(socket, pcm)
    assert (received[-1]["type"], code) == ("transcript.text.done", 1000)
    assert word_errors(PASSAGE, received[-1]["text"]) <= MAX_WORD_ERRORS
