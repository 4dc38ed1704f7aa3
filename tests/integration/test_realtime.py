"""OpenAI's own Realtime client, on a real model."""

import asyncio
import base64
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
import soundfile
import soxr
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from tests.integration.daemon_process import DaemonProcess, eventually, running_daemon
from tests.integration.live_client import LIMIT_S, pcm_of
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors

pytestmark = pytest.mark.integration

RATE_HZ = 24_000
TEXT = "conversation.item.input_audio_transcription"


@asynccontextmanager
async def connected(url: str, *, key: str = "none", **options: Any) -> AsyncIterator[AsyncRealtimeConnection]:
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client,
        client.realtime.connect(extra_query={"intent": "transcription"}, **options) as connection,
    ):
        yield connection


def run(main: Coroutine[Any, Any, None]) -> None:
    """The client is written for asyncio."""
    asyncio.run(asyncio.wait_for(main, LIMIT_S))


async def speak(connection: AsyncRealtimeConnection, audio: bytes, *, pace: float, bytes_per_s: int) -> None:
    """Sends a tenth of a second at a time, `pace` times as fast as one speaks."""
    step = bytes_per_s // 10
    for start in range(0, len(audio), step):
        await connection.input_audio_buffer.append(audio=base64.b64encode(audio[start : start + step]).decode())
        await asyncio.sleep(0.1 / pace)
    await connection.input_audio_buffer.commit()


class Heard:
    """What a client was told."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def listen(self, connection: AsyncRealtimeConnection, speaking: "asyncio.Task[None]", name: str) -> None:
        """Until an item ends as the passage does."""
        last_word = passage(name).split()[-1].strip(".")
        async for event in connection:
            self.events.append(event.to_dict())
            if event.type == f"{TEXT}.completed" and event.transcript.rstrip(".").endswith(last_word):
                await speaking
                return

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def text(self) -> str:
        return " ".join(event["transcript"] for event in self.of(f"{TEXT}.completed") if event["transcript"])


def check_items(heard: Heard) -> None:
    """Every item is committed, told in deltas, and completed, in order."""
    committed = [event["item_id"] for event in heard.of("input_audio_buffer.committed")]
    completed = {event["item_id"]: event["transcript"] for event in heard.of(f"{TEXT}.completed")}
    assert list(completed) == committed
    for item_id, transcript in completed.items():
        deltas = [event["delta"] for event in heard.of(f"{TEXT}.delta") if event["item_id"] == item_id]
        assert "".join(deltas) == transcript
    assert heard.of("error") == []


def test_a_passage_spoken_faster_than_real_time_is_transcribed_turn_by_turn(
    daemon: DaemonProcess, audio_files: dict[str, Path]
) -> None:
    pcm = pcm_of(audio_files["two_cities.wav"], sample_rate=RATE_HZ)
    heard = Heard()

    async def main() -> None:
        async with connected(daemon.url) as connection:
            detection = {"type": "server_vad", "silence_duration_ms": 400}
            audio = {"input": {"transcription": {"model": "moonshine-live"}, "turn_detection": detection}}
            await connection.session.update(session={"type": "transcription", "audio": audio})  # type: ignore[arg-type]
            speaking = asyncio.create_task(speak(connection, pcm, pace=8, bytes_per_s=2 * RATE_HZ))
            await heard.listen(connection, speaking, "two_cities")

    run(main())
    check_items(heard)
    assert [event["type"] for event in heard.events[:2]] == ["session.created", "session.updated"]
    starts = [event["audio_start_ms"] for event in heard.of("input_audio_buffer.speech_started")]
    assert len(starts) == len(heard.of("input_audio_buffer.speech_stopped")) >= 5
    assert starts == sorted(starts)
    assert starts[-1] <= len(pcm) / 2 / RATE_HZ * 1e3
    assert word_errors(passage("two_cities"), heard.text) <= MAX_WORD_ERRORS


@pytest.mark.parametrize(("name", "subtype"), [("g711_ulaw", "ULAW"), ("g711_alaw", "ALAW")])
def test_telephone_audio_in_the_shape_of_the_beta_without_turn_detection(
    daemon: DaemonProcess, audio_files: dict[str, Path], tmp_path: Path, name: str, subtype: str
) -> None:
    samples, rate_hz = soundfile.read(audio_files["beckett.wav"], dtype="float32", always_2d=True)
    soundfile.write(tmp_path / "a.raw", soxr.resample(samples[:, 0], rate_hz, 8000), 8000, subtype, format="RAW")
    audio = (tmp_path / "a.raw").read_bytes()
    heard = Heard()

    async def main() -> None:
        async with connected(daemon.url, model="moonshine-live") as connection:
            session = {"input_audio_format": name, "turn_detection": None}
            await connection.send({"type": "transcription_session.update", "session": session})  # type: ignore[arg-type]
            speaking = asyncio.create_task(speak(connection, audio, pace=20, bytes_per_s=8000))
            await heard.listen(connection, speaking, "beckett")

    run(main())
    check_items(heard)
    assert heard.of("input_audio_buffer.speech_started") == []
    assert len(heard.of("input_audio_buffer.committed")) == 1
    assert word_errors(passage("beckett"), heard.text) <= MAX_WORD_ERRORS


def test_what_is_cleared_is_not_heard_and_what_follows_is(daemon: DaemonProcess, audio_files: dict[str, Path]) -> None:
    pcm = pcm_of(audio_files["beckett.wav"], sample_rate=RATE_HZ)
    heard = Heard()

    async def main() -> None:
        async with connected(daemon.url) as connection:
            for start in range(0, len(pcm) // 2, RATE_HZ):
                await connection.input_audio_buffer.append(
                    audio=base64.b64encode(pcm[start : start + RATE_HZ]).decode()
                )
            await connection.input_audio_buffer.clear()
            async for event in connection:
                if event.type == "input_audio_buffer.cleared":
                    break
            speaking = asyncio.create_task(speak(connection, pcm, pace=20, bytes_per_s=2 * RATE_HZ))
            await heard.listen(connection, speaking, "beckett")

    run(main())
    check_items(heard)
    assert word_errors(passage("beckett"), heard.text) <= MAX_WORD_ERRORS


def test_a_key_is_needed_and_refused_at_the_handshake(tmp_path: Path, models_root: Path) -> None:
    """R55"""

    async def main(url: str) -> None:
        async with connected(url, key="right") as connection:
            assert (await connection.recv()).type == "session.created"
        with pytest.raises(Exception, match="401"):
            async with connected(url, key="wrong"):
                pytest.fail("the key is wrong")

    with running_daemon(tmp_path, models_root, api_keys=["right"]) as daemon:
        run(main(daemon.url))
        assert eventually(lambda: all(row["active_slots"] == 0 for row in daemon.ps().values()))
