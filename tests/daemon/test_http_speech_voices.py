"""Which voice and which options a speech request comes to, for a family that takes recordings of voices."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import trio
from tests.fakes.echo_voice import RATE_HZ, SPEC
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.http.voice_reference import MAX_BASE64_CHARS, MAX_BYTES
from audiocpp.engines.tasks import AudioChunk, Reference, TaskRequest

SAMPLES = bytes(range(16))
RECORDING = b"FAKE" + SAMPLES
OTHER = b"FAKE" + SAMPLES[::-1]
REFERENCE = Reference(pcm=SAMPLES, sample_rate=RATE_HZ)
OTHER_REFERENCE = Reference(pcm=SAMPLES[::-1], sample_rate=RATE_HZ)


class Speaking:
    """A server with one entry of the family, and what its answers were."""

    def __init__(self, folder: Path, *, server: Mapping[str, Any] | None = None, **entry: Any) -> None:
        self._folder = folder
        self._server = server or {}
        self._entry = {"id": "echo", "family": "echo_voice", **entry}

    async def post(self, **body: Any) -> tuple[Any, Script]:
        script = Script(events=[AudioChunk(pcm=bytes(8), sample_rate=RATE_HZ)])
        config = {"models": [self._entry], "model_spec_override": str(SPEC), "lazy_load": True, **self._server}
        with trio.fail_after(5):
            client = fake_app(self._folder, script, **config).test_client()
            response = await client.post("/v1/audio/speech", data=json.dumps({"input": "hello", **body}).encode())
        return response, script

    async def request(self, **body: Any) -> TaskRequest:
        """What reaches the model."""
        response, script = await self.post(**body)
        assert response.status_code == 200, await response.get_data()
        return script.run.request

    async def voice(self, **body: Any) -> str:
        """What the reply says that spoke."""
        response, _ = await self.post(**body)
        assert response.status_code == 200, await response.get_data()
        return unquote(response.headers["X-AudioCPP-Voice"])

    async def error(self, status: int = 400, **body: Any) -> tuple[str, str]:
        response, script = await self.post(**body)
        error = (await response.get_json())["error"]
        assert (response.status_code, script.runs) == (status, []), error
        return error["param"], error["message"]


@pytest.fixture
def library(tmp_path: Path) -> dict[str, str]:
    """The configuration of a folder of recordings."""
    folder = tmp_path / "voices"
    folder.mkdir()
    for name in ("anna", "ef_first", "echo", "Jörg%"):
        (folder / f"{name}.wav").write_bytes(RECORDING)
    (folder / "damaged.wav").write_bytes(b"no audio")
    (folder / "prompt_text").write_text("anna|I am Anna.\n")
    return {"voice_dir": str(folder)}


def base64_ref(data: bytes, *, prefix: str = "") -> dict[str, str]:
    return {"type": "base64", "data": prefix + base64.b64encode(data).decode()}


async def test_a_recording_comes_as_path_or_base64(tmp_path: Path) -> None:
    path = tmp_path / "own.wav"
    path.write_bytes(RECORDING)
    speaking = Speaking(tmp_path)
    forms: list[Any] = [
        str(path),
        {"type": "path", "path": str(path)},
        base64_ref(RECORDING),
        base64_ref(RECORDING, prefix="data:audio/wav;base64,"),
    ]
    for form in forms:
        request = await speaking.request(voice_ref=form)
        assert (request.voice, request.reference) == ("", REFERENCE)


@pytest.mark.parametrize(
    ("voice_ref", "param"),
    [
        ("", "voice_ref"),
        (5, "voice_ref"),
        ([], "voice_ref"),
        ("/nonexistent.wav", "voice_ref"),
        ({}, "voice_ref.type"),
        ({"type": "url", "path": "http://example/a.wav"}, "voice_ref.type"),
        ({"type": "path"}, "voice_ref.path"),
        ({"type": "path", "path": ""}, "voice_ref.path"),
        ({"type": "path", "path": 5}, "voice_ref.path"),
        ({"type": "path", "path": "/nonexistent.wav"}, "voice_ref.path"),
        ({"type": "base64"}, "voice_ref.data"),
        ({"type": "base64", "data": ""}, "voice_ref.data"),
        ({"type": "base64", "data": "!!!!"}, "voice_ref.data"),
        (base64_ref(b"no audio"), "voice_ref"),
        (base64_ref(b"FAKE"), "voice_ref"),
    ],
)
async def test_a_bad_recording_is_refused_by_its_field(tmp_path: Path, voice_ref: Any, param: str) -> None:
    assert (await Speaking(tmp_path).error(voice_ref=voice_ref))[0] == param


async def test_a_recording_in_base64_has_a_limit_before_and_after_decoding(tmp_path: Path) -> None:
    speaking = Speaking(tmp_path)
    largest = b"FAKE".ljust(MAX_BYTES, b"\0")
    assert (await speaking.request(voice_ref=base64_ref(largest))).reference is not None
    padded = base64_ref(RECORDING)
    padded["data"] = padded["data"].ljust(MAX_BASE64_CHARS)
    assert (await speaking.request(voice_ref=padded)).reference == REFERENCE
    for too_large in (base64_ref(largest + b"\0"), {**padded, "data": padded["data"] + " "}):
        param, message = await speaking.error(413, voice_ref=too_large)
        assert param == "voice_ref.data"
        assert str(MAX_BYTES) in message or str(MAX_BASE64_CHARS) in message


async def test_a_path_lies_below_the_audio_roots(tmp_path: Path) -> None:
    inside, outside = tmp_path / "roots", tmp_path / "outside.wav"
    inside.mkdir()
    for path in (inside / "own.wav", outside):
        path.write_bytes(RECORDING)
    speaking = Speaking(tmp_path, server={"audio_roots": [str(inside)]})
    assert (await speaking.request(voice_ref=str(inside / "own.wav"))).reference == REFERENCE
    for voice_ref in (str(outside), {"type": "path", "path": f"{inside}/../outside.wav"}):
        assert "audio_roots" in (await speaking.error(403, voice_ref=voice_ref))[1]


async def test_a_preset_gives_its_recording_and_what_is_said_in_it(tmp_path: Path) -> None:
    (tmp_path / "own.wav").write_bytes(RECORDING)
    preset = {"voice_ref": "own.wav", "reference_text": "Mine.", "options": {"seed": 7, "style": "calm"}}
    speaking = Speaking(tmp_path, voice_presets={"narrator": preset}, default_voice_preset="narrator")
    for body in ({"voice": "narrator"}, {}, {"voice": None}, {"voice": ""}, {"voice": "alloy"}):
        request = await speaking.request(**body)
        assert (request.voice, request.reference) == ("", REFERENCE)
        assert request.options == {"reference_text": "Mine.", "seed": 7, "style": "calm"}
        assert await speaking.voice(**body) == "narrator"


async def test_options_of_a_request_win_over_those_of_a_preset_key_by_key(tmp_path: Path) -> None:
    preset = {"voice_id": "em_onyx", "options": {"seed": 7, "style": "calm"}}
    speaking = Speaking(
        tmp_path, voice_presets={"narrator": preset}, default_request_options={"style": "loud", "speaking_rate": 2}
    )
    request = await speaking.request(voice="narrator", options={"seed": 8})
    assert request.options == {"seed": 8, "style": "calm", "speaking_rate": 2.0}
    assert (await speaking.request(voice="narrator", seed=9, options={"seed": 8})).options["seed"] == 9
    assert (await speaking.request(voice="narrator", seed=None, options={"seed": 8})).options["seed"] == 8


async def test_the_text_of_a_request_wins_over_that_of_a_preset(tmp_path: Path) -> None:
    (tmp_path / "own.wav").write_bytes(RECORDING)
    preset = {"voice_ref": "own.wav", "reference_text": "Mine."}
    speaking = Speaking(tmp_path, voice_presets={"narrator": preset})
    for body in ({"reference_text": "Yours."}, {"options": {"reference_text": "Yours."}}):
        request = await speaking.request(voice="narrator", **body)
        assert (request.reference, request.options) == (REFERENCE, {"reference_text": "Yours."})
    both = {"reference_text": "Top.", "options": {"reference_text": "Inner."}}
    assert (await speaking.request(voice="narrator", **both)).options == {"reference_text": "Top."}


async def test_a_recording_of_the_request_replaces_that_of_a_preset_and_its_text(tmp_path: Path) -> None:
    (tmp_path / "own.wav").write_bytes(RECORDING)
    preset = {"voice_id": "em_onyx", "voice_ref": "own.wav", "reference_text": "Mine."}
    speaking = Speaking(tmp_path, voice_presets={"narrator": preset}, default_voice_preset="narrator")
    request = await speaking.request(voice="narrator", voice_ref=base64_ref(OTHER))
    assert (request.voice, request.reference, request.options) == ("em_onyx", OTHER_REFERENCE, {})
    alone = await speaking.request(voice_ref=base64_ref(OTHER))
    assert (alone.voice, alone.reference, alone.options) == ("", OTHER_REFERENCE, {})


async def test_a_recording_of_the_library_comes_with_its_transcript(tmp_path: Path, library: dict[str, str]) -> None:
    speaking = Speaking(tmp_path, server=library)
    request = await speaking.request(voice="anna")
    assert (request.voice, request.reference) == ("", REFERENCE)
    assert request.options == {"reference_text": "I am Anna."}
    for name in ("ef_first", "echo"):  # a voice of the model, and a name of OpenAI: the library comes first
        request = await speaking.request(voice=name)
        assert (request.voice, request.reference, request.options) == ("", REFERENCE, {})
        assert await speaking.voice(voice=name) == name


async def test_with_a_recording_of_the_request_the_library_is_not_looked_at(
    tmp_path: Path, library: dict[str, str]
) -> None:
    speaking = Speaking(tmp_path, server=library)
    request = await speaking.request(voice="ef_first", voice_ref=base64_ref(OTHER))
    assert (request.voice, request.reference, request.options) == ("ef_first", OTHER_REFERENCE, {})


@pytest.mark.parametrize(
    ("query", "own"), [("", True), ("?model=echo", True), ("?model=", True), ("?model=nobody", False)]
)
async def test_presets_voices_and_recordings_are_listed_once_in_byte_order(
    tmp_path: Path, library: dict[str, str], query: str, own: bool
) -> None:
    presets = {"zoe": {"voice_id": "em_onyx"}, "anna": {"voice_id": "em_onyx"}, "Zed": {"voice_id": "em_onyx"}}
    model = {"id": "echo", "family": "echo_voice", "voice_presets": presets}
    client = fake_app(tmp_path, models=[model], model_spec_override=str(SPEC), **library).test_client()
    with trio.fail_after(5):
        response = await client.get(f"/v1/audio/voices{query}")
    recordings = ["Jörg%", "anna", "damaged", "echo", "ef_first"]
    listed = ["Jörg%", "Zed", "anna", "damaged", "echo", "ef_first", "em_onyx", "zoe"] if own else recordings
    assert (response.status_code, await response.get_json()) == (200, {"voices": listed})


async def test_a_damaged_recording_of_the_library_is_told_as_the_voice(tmp_path: Path, library: dict[str, str]) -> None:
    assert (await Speaking(tmp_path, server=library).error(voice="damaged"))[0] == "voice"


@pytest.mark.parametrize(
    ("body", "voice"),
    [
        ({}, "ef_first"),
        ({"voice": "em_onyx"}, "em_onyx"),
        ({"voice": "onyx"}, "em_onyx"),
        ({"voice": "nova"}, "ef_first"),
        ({"voice": "anna"}, "anna"),
        ({"voice": "Jörg%"}, "Jörg%"),
        ({"voice_ref": base64_ref(RECORDING)}, "voice_ref"),
        ({"voice": "onyx", "voice_ref": base64_ref(RECORDING)}, "em_onyx"),
    ],
)
@pytest.mark.parametrize("form", [{}, {"response_format": "json"}, {"stream": True}, {"stream_format": "audio"}])
async def test_every_reply_names_what_speaks(
    tmp_path: Path, library: dict[str, str], form: dict[str, Any], body: dict[str, Any], voice: str
) -> None:
    assert await Speaking(tmp_path, server=library).voice(**form, **body) == voice


async def test_an_unknown_voice_is_refused_with_those_that_are_known(tmp_path: Path, library: dict[str, str]) -> None:
    param, message = await Speaking(tmp_path, server=library).error(voice="nobody")
    assert param == "voice"
    assert all(name in message for name in ("anna", "ef_first", "em_onyx"))


async def test_a_recording_as_voice_of_a_model_that_takes_none_is_told(tmp_path: Path, library: dict[str, str]) -> None:
    piper = Speaking(tmp_path, server=library, family="piper_tts")
    param, message = await piper.error(voice="anna")
    assert param == "voice"
    assert "does not speak like a recording" in message


@pytest.mark.parametrize("field", ["instruct", "instruction"])
@pytest.mark.parametrize("where", ["default_request_options", "preset"])
async def test_an_instruction_of_a_request_replaces_either_spelling_of_the_configuration(
    tmp_path: Path, where: str, field: str
) -> None:
    configured = {field: "configured"}
    entry: dict[str, Any] = {"default_request_options": configured}
    if where == "preset":
        entry = {"default_voice_preset": {"voice_id": "em_onyx", "options": configured}}
    speaking = Speaking(tmp_path, **entry)
    assert (await speaking.request()).options == configured
    assert (await speaking.request(instruct="own")).options == {"instruct": "own"}
    assert (await speaking.request(instructions="own")).options == {"instruction": "own"}
    assert (await speaking.request(options={"instruct": "own"})).options == {"instruct": "own"}


async def test_an_instruction_overrides_its_own_key_of_the_options(tmp_path: Path) -> None:
    speaking = Speaking(tmp_path)
    options = {"instruct": "a", "instruction": "b"}
    assert (await speaking.request(instruct="own", options=options)).options == {**options, "instruct": "own"}
    assert (await speaking.request(instructions="own", options=options)).options == {**options, "instruction": "own"}
    assert (await speaking.error(instruct="a", instructions="b"))[0] == "instructions"


@pytest.mark.parametrize(
    ("body", "rate"),
    [
        ({"speed": 1.5}, 1.5),
        ({"speaking_rate": 1.5}, 1.5),
        ({"speed": 1.5, "speaking_rate": 0.7}, 1.5),
        ({"speed": None, "speaking_rate": 0.7}, 0.7),
        ({"speed": 1}, 1.0),
        ({"speed": 1.23456789}, 1.234568),
        ({"speed": 1.5, "options": {"speaking_rate": 2}}, 1.5),
    ],
)
async def test_speed_sets_speaking_rate_where_there_is_no_speed(
    tmp_path: Path, body: dict[str, Any], rate: float
) -> None:
    assert (await Speaking(tmp_path).request(**body)).options == {"speaking_rate": rate}


@pytest.mark.parametrize(
    ("given", "text"), [(5, "5"), (0.6, "0.6"), (True, "true"), ([1, {"a": "b"}], '[1,{"a":"b"}]')]
)
async def test_any_json_value_is_text_where_an_option_is_text(tmp_path: Path, given: Any, text: str) -> None:
    assert (await Speaking(tmp_path).request(options={"style": given})).options == {"style": text}


async def test_a_seed_may_be_a_text(tmp_path: Path) -> None:
    assert (await Speaking(tmp_path).request(seed=str(2**63 + 1))).options == {"seed": 2**63 + 1}
