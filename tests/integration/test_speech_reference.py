"""Recordings of voices from the request to the model, through the real decoder and a real worker process."""

import base64
import io
import json
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import trio
from tests.fakes.echo_server import LIMIT_S, echo_services, running
from tests.fakes.echo_voice import PLAY, RATE_HZ, described

from audiocpp.daemon.errors import ConfigError
from audiocpp.daemon.http.app import create_app
from audiocpp.daemon.references import MAX_REFERENCE_S, check_presets

pytestmark = pytest.mark.integration

TONE_HZ = 440.0


def recording(seconds: float, *, rate_hz: int = 44_100, channels: int = 2, container: str = "WAV") -> bytes:
    """A tone on the first channel, silence on the others."""
    samples = np.zeros((round(seconds * rate_hz), channels), np.float32)
    samples[:, 0] = 0.8 * np.sin(2 * np.pi * TONE_HZ * np.arange(len(samples)) / rate_hz)
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=container)
    return file.getvalue()


def base64_ref(data: bytes) -> dict[str, str]:
    return {"type": "base64", "data": base64.b64encode(data).decode()}


@asynccontextmanager
async def serving(folder: Path, **entry: Any) -> AsyncIterator[Any]:
    """A client of an app whose only model is the family that echoes."""
    services = echo_services(folder, **entry)
    async with running(services):
        yield create_app(services).test_client()


async def speak(client: Any, text: str = "hello", **body: Any) -> Any:
    body = {"input": text, "response_format": "pcm", **body}
    return await client.post("/v1/audio/speech", data=json.dumps(body).encode())


async def given(client: Any, **body: Any) -> dict[str, Any]:
    """What the model was given."""
    response = await speak(client, **body)
    assert response.status_code == 200, await response.get_data()
    return described(await response.get_data())


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG"])
async def test_a_recording_reaches_the_model_mono_at_its_rate(tmp_path: Path, container: str) -> None:
    async with serving(tmp_path) as client:
        sent = base64_ref(recording(1.5, container=container))
        seen = await given(client, voice_ref=sent, reference_text="La.", voice="em_onyx", seed=3)
        assert seen["samples"] == pytest.approx(1.5 * RATE_HZ, rel=0.01)
        assert seen == {
            "text": "hello",
            "voice": "em_onyx",
            "options": {"reference_text": "La.", "seed": 3},
            "samples": seen["samples"],
            "sample_rate": RATE_HZ,
        }
        played = await (await speak(client, PLAY, voice_ref=sent, response_format="wav")).get_data()
    with wave.open(io.BytesIO(played)) as file:
        assert (file.getframerate(), file.getnchannels()) == (RATE_HZ, 1)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32767
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) * RATE_HZ / len(samples) == pytest.approx(TONE_HZ, abs=2)
    assert np.abs(samples[1000:-1000]).max() == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize("stream", [{}, {"stream_format": "audio"}], ids=["whole", "streamed"])
async def test_the_longest_recording_is_taken_and_a_longer_one_is_not(tmp_path: Path, stream: dict[str, str]) -> None:
    path = tmp_path / "long.wav"
    async with serving(tmp_path) as client:
        path.write_bytes(recording(MAX_REFERENCE_S, rate_hz=8000, channels=1))
        seen = await given(client, voice_ref=str(path), **stream)
        assert seen["samples"] == pytest.approx(MAX_REFERENCE_S * RATE_HZ, abs=2)
        path.write_bytes(recording(MAX_REFERENCE_S + 3, rate_hz=8000, channels=1))
        response = await speak(client, voice_ref={"type": "path", "path": str(path)}, **stream)
        assert response.status_code == 413
        error = (await response.get_json())["error"]
        assert (error["param"], "60 s" in error["message"]) == ("voice_ref", True)


async def test_what_is_no_recording_is_refused_as_the_field_it_came_in(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        for data in (b"hello", recording(0)):
            response = await speak(client, voice_ref=base64_ref(data))
            assert response.status_code == 400
            error = (await response.get_json())["error"]
            assert error["param"] == "voice_ref"
            assert error["message"].startswith("voice_ref: ")


async def test_a_preset_is_what_its_file_was_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "own.wav"
    path.write_bytes(recording(1.0))
    preset = {"voice_ref": "own.wav", "reference_text": "Mine."}
    async with serving(tmp_path, voice_presets={"narrator": preset}) as client:
        path.unlink()
        seen = await given(client, voice="narrator")
        assert (seen["samples"], seen["options"]) == (RATE_HZ, {"reference_text": "Mine."})


@pytest.mark.parametrize("where", ["voice_presets.narrator", "default_voice_preset"])
async def test_a_preset_without_audio_ends_the_start(tmp_path: Path, where: str) -> None:
    (tmp_path / "own.wav").write_bytes(b"no audio")
    preset = {"voice_ref": "own.wav"}
    entry = {"voice_presets": {"narrator": preset}} if "." in where else {"default_voice_preset": preset}
    services = echo_services(tmp_path, **entry)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(services.serve)
            with pytest.raises(ConfigError, match=rf"^models\[0\]\.{where}\.voice_ref: no readable audio .*own\.wav"):
                await check_presets(services.registry, services.codecs)
            nursery.cancel_scope.cancel()
