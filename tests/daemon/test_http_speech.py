"""POST /v1/audio/speech: what reaches the model, what is refused, and the replies' shapes."""

import base64
import json
import math
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.errors import InvalidRequest, ServerBusy
from audiocpp.daemon.http.speech_request import CONTENT_TYPES
from audiocpp.engines.ffmpeg import INSTALL_COMMAND
from audiocpp.engines.tasks import AudioChunk

PCM = bytes(range(8))
SPECS = files("audiocpp").joinpath("model_specs")


def speaking() -> Script:
    chunks = [AudioChunk(pcm=PCM, sample_rate=22050), AudioChunk(pcm=PCM[::-1], sample_rate=22050)]
    return Script(events=chunks)


async def post(folder: Path, script: Script, path: str, body: Any, **config: Any) -> Any:
    client = fake_app(folder, script, **config).test_client()
    with trio.fail_after(5):
        return await client.post(path, data=json.dumps(body).encode())


async def speak(folder: Path, script: Script, config: Any = None, **body: Any) -> Any:
    return await post(folder, script, "/v1/audio/speech", {"input": "hello", **body}, **(config or {}))


async def refused(response: Any, status: int = 400) -> tuple[str, str]:
    error = (await response.get_json())["error"]
    assert response.status_code == status, error
    return error["param"], error["message"]


async def test_speech_is_a_wav_file_with_timing_in_plain_decimals(tmp_path: Path) -> None:
    script = speaking()
    response = await speak(tmp_path, script, model="piper")
    assert (response.status_code, response.content_type) == (200, "audio/wav")
    assert await response.get_data() == b"WAV" + PCM + PCM[::-1]
    assert response.headers["X-AudioCPP-Wall-Ms"] == "250.000000"
    assert response.headers["X-AudioCPP-Audio-Duration-Ms"] == "500.000000"
    assert response.headers["X-AudioCPP-RTF"] == "0.500000"
    request = script.run.request
    assert (request.task, request.mode, request.text) == ("tts", "offline", "hello")


@pytest.mark.parametrize("name", ["json", "b64_json"])
async def test_speech_comes_as_json_when_asked_for(tmp_path: Path, name: str) -> None:
    body = await (await speak(tmp_path, speaking(), response_format=name)).get_json()
    assert base64.b64decode(body["audio"]).startswith(b"WAV")
    assert body["format"] == "wav"
    assert body["timing"] == {"wall_ms": 250.0, "audio_duration_ms": 500.0, "rtf": 0.5}


@pytest.mark.parametrize(
    ("name", "content_type", "head"),
    [
        ("pcm", "audio/pcm", b""),
        ("mp3", "audio/mpeg", b"MP3"),
        ("flac", "audio/flac", b"FLAC"),
        ("opus", "audio/ogg", b"OPUS"),
        ("aac", "audio/aac", b"AAC"),
    ],
)
async def test_speech_comes_in_the_format_asked_for(tmp_path: Path, name: str, content_type: str, head: bytes) -> None:
    response = await speak(tmp_path, speaking(), response_format=name)
    assert response.content_type == content_type
    assert await response.get_data() == head + PCM + PCM[::-1]


@pytest.mark.parametrize("body", [{"stream": True}, {"stream": "1"}, {"stream_format": "sse"}, {"stream_format": None}])
async def test_a_stream_of_events_carries_pcm(tmp_path: Path, body: dict[str, Any]) -> None:
    script = speaking()
    response = await speak(tmp_path, script, **body)
    lines = (await response.get_data(as_text=True)).split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    assert [event["type"] for event in events] == ["speech.audio.delta", "speech.audio.delta", "speech.audio.done"]
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == PCM + PCM[::-1]
    assert events[-1]["timing"]["ttft_ms"] >= 0
    assert lines[-2:] == ["data: [DONE]", ""]
    assert response.headers["X-Accel-Buffering"] == "no"
    assert script.run.request.mode == "streaming"


@pytest.mark.parametrize("body", [{}, {"response_format": "pcm"}, {"response_format": None}])
async def test_a_raw_stream_is_bare_pcm_unless_asked_otherwise(tmp_path: Path, body: dict[str, Any]) -> None:
    response = await speak(tmp_path, speaking(), stream_format="audio", **body)
    assert response.content_type == "application/octet-stream"
    assert await response.get_data() == PCM + PCM[::-1]


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("wav", "audio/wav"),
        ("mp3", "audio/mpeg"),
        ("flac", "audio/flac"),
        ("opus", "audio/ogg"),
        ("aac", "audio/aac"),
    ],
)
async def test_a_raw_stream_is_encoded_as_it_is_made(tmp_path: Path, name: str, content_type: str) -> None:
    response = await speak(tmp_path, speaking(), stream_format="audio", response_format=name)
    assert response.content_type == content_type
    assert await response.get_data() == name.upper().encode() + b"..." + PCM + PCM[::-1]


@pytest.mark.parametrize("body", [{}, {"stream_format": "audio"}], ids=["file", "stream"])
async def test_a_format_that_is_not_made_is_refused_with_those_that_are(tmp_path: Path, body: dict[str, Any]) -> None:
    param, message = await refused(await speak(tmp_path, speaking(), response_format="wma", **body))
    assert param == "response_format"
    assert all(name in message for name in CONTENT_TYPES)


@pytest.mark.parametrize("body", [{}, {"stream_format": "audio"}], ids=["file", "stream"])
async def test_without_ffmpeg_aac_is_refused_with_the_command_that_adds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: dict[str, Any]
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    script = speaking()
    param, message = await refused(await speak(tmp_path, script, response_format="aac", **body))
    assert (param, script.runs) == ("response_format", [])
    assert message.endswith(f"flac, opus{', json, b64_json' if not body else ''}; for this one: {INSTALL_COMMAND}")


@pytest.mark.parametrize("body", [{}, {"stream": True}, {"stream_format": "audio"}])
async def test_a_busy_model_is_503_before_any_header(tmp_path: Path, body: dict[str, Any]) -> None:
    await refused(await speak(tmp_path, Script(refuses=ServerBusy("busy")), **body), 503)


async def test_a_run_that_takes_too_long_is_408(tmp_path: Path) -> None:
    script = Script(hangs=True)
    response = await speak(tmp_path, script, {"request_timeout_ms": 20})
    assert "request_timeout_ms" in (await refused(response, 408))[1]
    assert not script.run.completed


async def test_a_model_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    assert (await refused(await speak(tmp_path, Script()), 500))[1] == "the model generated no audio"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": "  \n"}, "input"),
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"model": "moonshine"}, "model"),
        ({"response_format": "midi"}, "response_format"),
        ({"stream": True, "response_format": "wav"}, "response_format"),
        ({"stream_format": "sse", "response_format": "mp3"}, "response_format"),
        ({"stream_format": "audio", "response_format": "json"}, "response_format"),
        ({"stream_format": "chunks"}, "stream_format"),
        ({"stream": "maybe"}, "stream"),
        ({"voice": "nobody"}, "voice"),
        ({"voice": "../../etc/passwd"}, "voice"),
        ({"voice": "/etc/passwd"}, "voice"),
        ({"voice": 5}, "voice"),
        ({"voice_ref": "/etc/passwd"}, "voice_ref"),
        ({"voice_ref": {"type": "base64", "data": "UklGRg=="}}, "voice_ref"),
        ({"reference_text": "said"}, "reference_text"),
        ({"options": {"reference_text": "said"}}, "options.reference_text"),
        ({"instructions": "a", "instruct": "b"}, "instructions"),
        ({"instructions": "whisper"}, "instructions"),
        ({"instruct": "whisper"}, "instruct"),
        ({"speed": 0}, "speed"),
        ({"speed": 100}, "speed"),
        ({"speed": "fast"}, "speed"),
        ({"options": {"pitch": 2}}, "options.pitch"),
        ({"options": {"noise_scale": "loud"}}, "options.noise_scale"),
        ({"temperature": 0.5}, "temperature"),
        ({"busy_timeout_ms": -1}, "busy_timeout_ms"),
        ({"busy_timeout_ms": 1.5}, "busy_timeout_ms"),
        ({"language": "tlh"}, "language"),
    ],
)
async def test_a_bad_field_is_named_without_running_anything(tmp_path: Path, body: dict[str, Any], param: str) -> None:
    script = speaking()
    assert (await refused(await speak(tmp_path, script, **body)))[0] == param
    assert script.runs == []


KOKORO = {"models": [{"id": "kokoro", "family": "kokoro_tts", "lazy": True}]}


@pytest.mark.parametrize("voice", ["bf_emma", "af_heart+af_bella", "af_heart(2)+af_bella(1)"])
async def test_a_mix_of_voices_reaches_a_model_that_mixes(tmp_path: Path, voice: str) -> None:
    script = speaking()
    assert (await speak(tmp_path, script, KOKORO, voice=voice)).status_code == 200
    assert script.run.request.voice == voice


@pytest.mark.parametrize("voice", ["nobody", "af_heart+alloy", "af_heart(-1)+af_bella", "af_heart+", "../x"])
async def test_an_unknown_part_of_a_mix_is_refused_without_running_anything(tmp_path: Path, voice: str) -> None:
    script = speaking()
    param, message = await refused(await speak(tmp_path, script, KOKORO, voice=voice))
    assert param == "voice"
    assert len(message) < 300
    assert script.runs == []


async def test_an_unknown_voice_of_many_is_answered_with_some(tmp_path: Path) -> None:
    _, message = await refused(await speak(tmp_path, speaking(), KOKORO, voice="nobody"))
    assert "af_bella" in message
    assert message.endswith("and 42 more")


async def test_a_model_that_does_not_mix_takes_no_mix(tmp_path: Path) -> None:
    assert (await refused(await speak(tmp_path, speaking(), voice="joe+joe")))[0] == "voice"


async def test_a_path_as_voice_is_answered_alike_whether_or_not_it_exists(tmp_path: Path) -> None:
    messages = {
        (await refused(await speak(tmp_path, speaking(), voice=voice)))[1].replace(repr(voice), "VOICE")
        for voice in ("/etc/passwd", "/etc/missing", "a/../../x")
    }
    assert len(messages) == 1


async def test_an_unknown_option_lists_those_accepted(tmp_path: Path) -> None:
    assert "noise_scale" in (await refused(await speak(tmp_path, speaking(), options={"pitch": 2})))[1]


@pytest.mark.parametrize("field", ["speed", "speaking_rate"])
async def test_speed_becomes_the_option_that_the_model_declares(tmp_path: Path, field: str) -> None:
    script = speaking()
    await speak(tmp_path, script, **{field: 1.5, "options": {"noise_scale": "0.5", "speed": 3}})
    assert script.run.request.options == {"speed": 1.5, "noise_scale": 0.5}


async def test_without_a_rate_only_the_exactly_neutral_speed_is_taken(tmp_path: Path) -> None:
    spec = json.loads(SPECS.joinpath("piper_tts.json").read_bytes())
    spec["options"]["request"] = []
    (tmp_path / "piper_tts.json").write_text(json.dumps(spec))
    config = {"model_spec_override": str(tmp_path / "piper_tts.json")}
    for neutral in ({"speed": 1}, {"speed": 1.0}, {"speaking_rate": 1.0}, {"speed": None, "speaking_rate": 1.0}):
        script = speaking()
        assert (await speak(tmp_path, script, config, model="piper", **neutral)).status_code == 200
        assert script.run.request.options == {}
    for speed in (math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0), 0.5, 2):
        param, message = await refused(await speak(tmp_path, speaking(), config, model="piper", speed=speed))
        assert (param, "speed is not supported by this model" in message) == ("speed", True)
    assert (await refused(await speak(tmp_path, speaking(), config, model="piper", temperature=1.0)))[
        0
    ] == "temperature"


@pytest.mark.parametrize(
    ("voice", "speaks"),
    [
        ("alloy", "af_alloy"),
        ("echo", "am_echo"),
        ("fable", "bm_fable"),
        ("onyx", "am_onyx"),
        ("nova", "af_nova"),
        ("shimmer", "af_heart"),
        ("verse", "af_heart"),
    ],
)
async def test_the_voices_of_openai_are_those_of_kokoro_that_carry_their_names(
    tmp_path: Path, voice: str, speaks: str
) -> None:
    script = speaking()
    response = await speak(tmp_path, script, KOKORO, voice=voice)
    assert (response.status_code, response.headers["X-AudioCPP-Voice"]) == (200, speaks)
    assert script.run.request.voice == ("" if speaks == "af_heart" else speaks)


async def test_nulls_count_as_absent(tmp_path: Path) -> None:
    script = speaking()
    fields = ("model", "voice", "language", "speed", "seed", "options", "stream", "response_format", "instructions")
    assert (await speak(tmp_path, script, **dict.fromkeys(fields))).status_code == 200
    assert script.run.request.options == {}


async def test_options_of_the_configuration_yield_to_those_of_the_request(tmp_path: Path) -> None:
    model = {"id": "p", "family": "piper_tts", "default_request_options": {"noise_scale": 0.1, "noise_w": 0.2}}
    script = speaking()
    await speak(tmp_path, script, {"models": [model]}, options={"noise_w": 0.9})
    assert script.run.request.options == {"noise_scale": 0.1, "noise_w": 0.9}


async def test_a_preset_gives_its_voice_and_options(tmp_path: Path) -> None:
    preset = {"voice_id": "joe", "options": {"speed": 2, "noise_w": 1}}
    model = {"id": "p", "family": "piper_tts", "voice_presets": {"fast": preset}, "default_voice_preset": "fast"}
    for body in ({"voice": "fast"}, {"voice": ""}):
        script = speaking()
        await speak(tmp_path, script, {"models": [model]}, **body, options={"noise_w": 0.5})
        assert script.run.request.voice == "joe"
        assert script.run.request.options == {"speed": 2.0, "noise_w": 0.5}


@pytest.mark.parametrize("stream", [{}, {"stream_format": "audio"}, {"stream_format": "sse"}])
async def test_a_run_that_fails_before_its_first_audio_still_has_a_status(
    tmp_path: Path, stream: dict[str, str]
) -> None:
    script = Script(fails=InvalidRequest("there is nothing in the text that can be spoken", param="input"))
    assert (await refused(await speak(tmp_path, script, **stream)))[0] == "input"
