"""Live transcription of recorded speech, on a real model."""

import json
from pathlib import Path

import pytest
import trio
from tests.integration.daemon_process import DaemonProcess
from tests.integration.live_client import pcm_of, send, session, transcript

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def pcm(audio_files: dict[str, Path]) -> bytes:
    """The first twelve seconds of a recording as PCM16 at 16 kHz."""
    return pcm_of(audio_files["two_cities.wav"], seconds=12)


async def test_the_words_of_a_live_session_are_those_of_the_file(daemon: DaemonProcess, pcm: bytes) -> None:
    async with session(daemon) as socket:
        received, code = await transcript(socket, pcm)
    done = received[-1]
    assert (done["type"], code) == ("transcript.text.done", 1000)
    assert "".join(event["delta"] for event in received if event["type"] == "transcript.text.delta") == done["text"]
    assert {"best", "worst", "times", "wisdom"} <= {word.strip(".,").lower() for word in done["text"].split()}
    assert done["timing"]["audio_ms"] == pytest.approx(len(pcm) / 32, abs=1)
    starts = [event["start"] for event in received if event["type"] == "transcript.segment"]
    assert starts == sorted(starts)
    assert starts


async def test_finalize_gives_what_was_said_and_the_session_goes_on(daemon: DaemonProcess, pcm: bytes) -> None:
    async with session(daemon) as socket:
        await send(socket, pcm[: 32_000 * 3])
        await socket.send_message('{"type": "finalize", "id": "turn"}')
        kinds = []
        while not kinds or kinds[-1] != "transcript.finalized":
            kinds.append(json.loads(await socket.get_message())["type"])
        assert "transcript.text.delta" in kinds
        received, code = await transcript(socket, pcm[32_000 * 3 : 32_000 * 6])
        assert (received[-1]["type"], code) == ("transcript.text.done", 1000)


async def test_partials_are_sent_while_one_speaks(daemon: DaemonProcess, pcm: bytes) -> None:
    async with session(daemon, "&partials=true") as socket, trio.open_nursery() as nursery:

        async def speak() -> None:
            for start in range(0, len(pcm), 3200):
                await socket.send_message(pcm[start : start + 3200])
                await trio.sleep(0.1)  # as fast as one speaks: partials are made when there is time for them

        nursery.start_soon(speak)
        while json.loads(await socket.get_message())["type"] != "transcript.text.partial":
            continue
        nursery.cancel_scope.cancel()


async def test_silence_and_noise_frames_of_any_bytes_are_audio(daemon: DaemonProcess) -> None:
    async with session(daemon) as socket:
        received, code = await transcript(socket, bytes(64_001))
    assert (received[-1]["text"], code) == ("", 1000)


async def test_a_client_that_leaves_frees_its_slot_within_a_second(daemon: DaemonProcess, pcm: bytes) -> None:
    def active() -> int:
        with daemon.client() as client:
            return int(client.get("/v1/models/moonshine-live").json()["active_slots"])

    async with session(daemon) as socket:
        await send(socket, pcm)
        assert await trio.to_thread.run_sync(active) == 1
    with trio.fail_after(1):
        while await trio.to_thread.run_sync(active):
            await trio.sleep(0.05)
