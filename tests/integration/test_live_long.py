"""Five minutes of speech that the daemon speaks itself, heard live and from the file; and sounds that are no speech."""

import io
import itertools
from collections.abc import Callable

import httpx
import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray
from tests.integration.daemon_process import DaemonProcess
from tests.integration.live_client import heard, session, transcript
from tests.integration.passages import word_errors
from tests.integration.round_trip import MAX_WORD_ERRORS as MAX_ROUND_TRIP_ERRORS

pytestmark = pytest.mark.integration

RATE_HZ = 16_000
FIVE_MINUTES_S = 300
MAX_LIVE_DIFFERENCE = 0.05

WHO = ("The baker", "My neighbour", "An old sailor", "The new teacher", "A young doctor", "The postman", "Her sister")
DID = ("bought a basket of apples", "found the missing letter", "opened the heavy door", "painted the garden fence")
WHERE = ("at the market", "near the river", "behind the station", "on the way home", "beside the church")
SENTENCES = [f"{who} {did} {where}." for did, where, who in itertools.product(DID, WHERE, WHO)]

Sound = Callable[[np.random.Generator], NDArray[np.floating]]


def pcm16(samples: NDArray[np.floating]) -> bytes:
    return (32767 * np.clip(samples, -1, 1)).astype("<i2").tobytes()


def spoken(client: httpx.Client, seconds: float) -> tuple[str, bytes]:
    """A text of at least `seconds`, and its speech as PCM16 at 16 kHz."""
    texts: list[str] = []
    parts: list[NDArray[np.float32]] = []
    sentences = iter(SENTENCES)
    while sum(map(len, parts)) < seconds * RATE_HZ:
        text = " ".join(itertools.islice(sentences, 20))
        texts.append(text)
        reply = client.post("/v1/audio/speech", json={"model": "piper", "input": text})
        assert reply.status_code == 200, reply.text
        samples, rate_hz = soundfile.read(io.BytesIO(reply.content), dtype="float32")
        parts.append(soxr.resample(samples, rate_hz, RATE_HZ))
    return " ".join(texts), pcm16(np.concatenate(parts))


async def test_five_minutes_have_the_same_words_live_as_from_the_file(daemon: DaemonProcess) -> None:
    with daemon.client() as client:
        said, pcm = spoken(client, FIVE_MINUTES_S)
        wav = io.BytesIO()
        soundfile.write(wav, np.frombuffer(pcm, "<i2"), RATE_HZ, format="WAV")
        upload = {"file": ("spoken.wav", wav.getvalue())}
        from_file = client.post("/v1/audio/transcriptions", files=upload, data={"model": "moonshine"}).json()["text"]
    async with session(daemon) as socket:
        received, code = await transcript(socket, pcm)
    text = received[-1]["text"]
    assert (received[-1]["type"], code) == ("transcript.text.done", 1000)
    assert "".join(event["delta"] for event in received if event["type"] == "transcript.text.delta") == text
    assert word_errors(from_file, text) <= MAX_LIVE_DIFFERENCE
    assert word_errors(said, text) <= MAX_ROUND_TRIP_ERRORS


def hum(_: np.random.Generator) -> NDArray[np.floating]:
    """Mains hum with two harmonics, -20 dBFS."""
    seconds = np.arange(60 * RATE_HZ) / RATE_HZ
    return 0.1 * sum(np.sin(2 * np.pi * hertz * seconds) / number for number, hertz in enumerate((50, 100, 150), 1))


def clicks(random: np.random.Generator) -> NDArray[np.floating]:
    """Someone types: five short decaying bursts of noise a second over a quiet room."""
    room = random.normal(0, 0.001, 60 * RATE_HZ)
    burst = np.exp(-np.arange(800) / 120)
    for start in random.integers(0, len(room) - len(burst), 300):
        room[start : start + len(burst)] += 0.3 * random.normal(0, 1, len(burst)) * burst
    return room


SOUNDS: dict[str, Sound] = {
    "silence": lambda _: np.zeros(60 * RATE_HZ),
    "white noise": lambda random: random.normal(0, 0.05, 60 * RATE_HZ),
    "hum": hum,
    "keyboard clicks": clicks,
}


@pytest.mark.parametrize("sound", SOUNDS.values(), ids=SOUNDS)
async def test_a_minute_of_what_is_no_speech_has_no_text(daemon: DaemonProcess, sound: Sound) -> None:
    pcm = pcm16(sound(np.random.default_rng(1)))
    assert await heard(daemon, pcm) == ""
    wav = io.BytesIO()
    soundfile.write(wav, np.frombuffer(pcm, "<i2"), RATE_HZ, format="WAV")
    with daemon.client() as client:
        reply = client.post("/v1/audio/transcriptions", files={"file": wav.getvalue()}, data={"model": "moonshine"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["text"] == ""
