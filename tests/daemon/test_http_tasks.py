"""POST /v1/tasks/run and /v1/tasks/stream: what reaches the model, what is refused and how, and the replies' shapes."""

import base64
import io
import json
import wave
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.errors import InvalidRequest, ModelNotInstalled, RunFailed, ServerBusy
from audiocpp.daemon.http import task_artifacts, task_runs
from audiocpp.daemon.http.task_request import RequestObject
from audiocpp.engines.tasks import AudioChunk, Segment, SpeechStarted, TextDelta, Word

RUN = "/v1/tasks/run"
STREAM = "/v1/tasks/stream"

RECORDING = base64.b64encode(b"FAKE" + bytes(16)).decode()
EMPTY_RECORDING = base64.b64encode(b"FAKE").decode()
PAUSE = Segment(index=0, start=0.5, end=1.0, confidence=0.75)
SENTENCE = (
    SpeechStarted(0.5),
    TextDelta("Hello"),
    Segment(index=0, start=0.5, end=1.25, text="Hello", words=[Word(word="Hello", start=0.5, end=1.0, confidence=0.5)]),
    TextDelta(" world"),
)
CHUNKS = (AudioChunk(pcm=bytes(range(8)), sample_rate=22050), AudioChunk(pcm=bytes(8), sample_rate=22050))


async def post(folder: Path, script: Script, path: str, body: Any, **config: Any) -> Any:
    client = fake_app(folder, script, **config).test_client()
    with trio.fail_after(5):
        return await client.post(path, data=json.dumps(body).encode())


async def run(folder: Path, script: Script, **body: Any) -> Any:
    response = await post(folder, script, RUN, body)
    answer = await response.get_json()
    assert response.status_code == 200, answer
    return answer


async def refused(response: Any, status: int = 400) -> tuple[str, str]:
    """`param` and message of an error."""
    error = (await response.get_json())["error"]
    assert response.status_code == status, error
    return error["param"], error["message"]


async def stream(folder: Path, script: Script, **body: Any) -> list[Any]:
    """The events of a stream, `[DONE]` included."""
    response = await post(folder, script, STREAM, {"stream_format": "sse", **body})
    assert response.status_code == 200
    assert response.content_type == "text/event-stream; charset=utf-8"
    lines = [line.removeprefix("data: ") for line in (await response.get_data(as_text=True)).split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def frames_of(text: str) -> bytes:
    """The PCM of a WAV file in base64."""
    with wave.open(io.BytesIO(base64.b64decode(text))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (22050, 1, 2)
        return file.readframes(file.getnframes())


# Results.


@pytest.mark.parametrize("nested", [True, False])
async def test_voice_activity_counts_samples_of_the_recording(tmp_path: Path, nested: bool) -> None:
    request = {"audio_base64": RECORDING, "options": {"threshold": 0.6}}
    script = Script(events=[PAUSE])
    answer = await run(tmp_path, script, model="vad", **({"request": request} if nested else request))
    assert answer == {
        "segments": [{"start_sample": 4000, "end_sample": 8000, "confidence": 0.75}],
        "timing": {"wall_ms": 250.0},
    }
    assert script.run.request.options == {"threshold": 0.6}


async def test_a_recognition_has_text_language_segments_and_words_in_this_order(tmp_path: Path) -> None:
    answer = await run(tmp_path, Script(events=SENTENCE), model="moonshine", audio_base64=RECORDING)
    assert list(answer.items()) == [
        ("text", "Hello world"),
        ("language", "en"),
        ("segments", [{"start_sample": 4000, "end_sample": 10000, "text": "Hello"}]),
        ("words", [{"word": "Hello", "start_sample": 4000, "end_sample": 8000, "confidence": 0.5}]),
        ("timing", {"wall_ms": 250.0}),
    ]


async def test_a_streaming_entry_is_run_to_its_end(tmp_path: Path) -> None:
    script = Script(events=SENTENCE)
    answer = await run(tmp_path, script, model="moonshine-live", audio_base64=RECORDING)
    assert answer["text"] == "Hello world"
    assert script.run.request.mode == "offline"


async def test_silence_has_no_segments(tmp_path: Path) -> None:
    assert set(await run(tmp_path, Script(), model="vad", audio_base64=RECORDING)) == {"timing"}


async def test_a_recording_without_a_sample_needs_no_model(tmp_path: Path) -> None:
    script = Script(refuses=ModelNotInstalled("not needed"))
    answer = await run(tmp_path, script, model="moonshine", audio_base64=EMPTY_RECORDING)
    assert answer == {"text": "", "language": "en", "timing": {"wall_ms": 0.0}}


async def test_speech_is_a_file_in_base64_with_its_timing(tmp_path: Path) -> None:
    answer = await run(tmp_path, Script(events=CHUNKS), model="piper", request={"text": "hello"})
    assert frames_of(answer.pop("audio")) == bytes(range(8)) + bytes(8)
    assert list(answer.items()) == [
        ("sample_rate", 22050),
        ("channels", 1),
        ("timing", {"wall_ms": 250.0, "audio_duration_ms": 500.0, "rtf": 0.5}),
    ]


async def test_speech_too_long_for_one_reply_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runs, "MAX_SPOKEN_BYTES", 8)
    response = await post(tmp_path, Script(events=CHUNKS), RUN, {"model": "piper", "request": {"text": "hello"}})
    assert (await refused(response))[0] == "request.text"


async def test_the_only_entry_need_not_be_named(tmp_path: Path) -> None:
    only = [{"id": "vad", "family": "silero_vad"}]
    body = {"audio_base64": RECORDING}
    assert (await post(tmp_path, Script(events=[PAUSE]), RUN, body, models=only)).status_code == 200
    param, message = await refused(await post(tmp_path, Script(), RUN, body))
    assert (param, message.partition(":")[0]) == ("model", "model is required")


# The request object.


async def test_text_is_context_for_a_recognition(tmp_path: Path) -> None:
    script = Script(events=SENTENCE)
    await run(tmp_path, script, model="moonshine", text="Hamm, Clov", language="en-GB", audio_base64=RECORDING)
    assert (script.run.request.prompt, script.run.request.text) == ("Hamm, Clov", "")
    assert script.run.request.language == "en"


async def test_a_voice_of_the_model_is_used_and_no_preset(tmp_path: Path) -> None:
    preset = {"voice_id": "joe", "options": {"speed": 2}}
    models = [{"id": "piper", "family": "piper_tts", "voice_presets": {"fast": preset}, "default_voice_preset": "fast"}]
    for body, voice in (({}, ""), ({"voice_id": None}, ""), ({"voice_id": "joe"}, "joe")):
        script = Script(events=CHUNKS)
        response = await post(tmp_path, script, RUN, {"text": "hello", **body}, models=models)
        assert response.status_code == 200
        assert (script.run.request.voice, script.run.request.options) == (voice, {})
    response = await post(tmp_path, Script(), RUN, {"text": "hello", "voice_id": "fast"}, models=models)
    assert (await refused(response))[0] == "voice_id"


async def test_default_request_options_apply(tmp_path: Path) -> None:
    models = [{"id": "piper", "family": "piper_tts", "default_request_options": {"speed": 1.5, "noise_w": 0.5}}]
    script = Script(events=CHUNKS)
    await post(tmp_path, script, RUN, {"text": "hello", "options": {"speed": 2}}, models=models)
    assert script.run.request.options == {"speed": 2.0, "noise_w": 0.5}


async def test_the_rate_of_speech_is_the_option_that_the_family_declares(tmp_path: Path) -> None:
    script = Script(events=CHUNKS)
    await run(tmp_path, script, model="piper", text="hello", speaking_rate=1.25)
    assert script.run.request.options == {"speed": 1.25}


async def test_a_neutral_rate_is_taken_by_every_model(tmp_path: Path) -> None:
    await run(tmp_path, Script(), model="vad", audio_base64=RECORDING, speaking_rate=1.0)


async def test_null_counts_as_absent_everywhere(tmp_path: Path) -> None:
    script = Script(events=[PAUSE])
    nulls = dict.fromkeys(RequestObject.__struct_fields__)
    await run(tmp_path, script, model="vad", request={**nulls, "audio_base64": RECORDING})
    assert script.run.request.options == {}


TEXTS = ("style_language", "emotion", "target_text", "style_ref_text", "lyrics", "track_name", "speaker", "instruct")
NUMBERS = ("pitch_shift", "energy_scale", "duration_seconds", "repaint_start", "repaint_end", "repaint_strength")
PATHS = ("source_audio", "target_voice", "prosody_ref", "style_ref")
SCALARS = (
    "seed",
    "max_tokens",
    "max_steps",
    "temperature",
    "top_k",
    "top_p",
    "repetition_penalty",
    "do_sample",
    "num_beams",
    "guidance_scale",
    "num_inference_steps",
    "text_chunk_size",
    "text_chunk_mode",
    "audio_chunk_seconds",
    "audio_chunk_mode",
    "return_timestamps",
    "use_prosody_code",
    "predict_target_prosody",
    "use_pitch_shift",
    "source_shift_steps",
    "prosody_shift_steps",
    "style_shift_steps",
    "target_duration_seconds",
    "reference_duration_seconds",
)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *((name, "word") for name in (*TEXTS, "repaint_mode", "task_route", "route", *PATHS)),
        *((name, 0.5) for name in (*NUMBERS, *SCALARS)),
        ("style_tags", {"mood": "calm"}),
    ],
)
async def test_a_member_that_sets_an_undeclared_option_is_named(tmp_path: Path, member: str, value: Any) -> None:
    body = {"model": "piper", "request": {"text": "hello", member: value}}
    param, message = await refused(await post(tmp_path, Script(), RUN, body))
    assert param == f"request.{member}"
    assert "accepted: noise_scale, noise_w, speed" in message


OPTIONS = [
    {"name": "route", "type": "enum", "values": ["clone", "edit"], "description": "r"},
    {"name": "repainting_start", "type": "float", "description": "s"},
    {"name": "style_tags", "type": "string", "description": "t"},
    {"name": "seed", "type": "int", "description": "n"},
    {"name": "language", "type": "string", "description": "l"},
    {"name": "style_ref", "type": "audio_path", "description": "p"},
]


@pytest.fixture
def declaring(tmp_path: Path) -> dict[str, Any]:
    """The configuration of an entry whose family declares some options of each kind."""
    spec = json.loads((Path(__file__).parents[2] / "model_specs" / "piper_tts.json").read_text())
    spec["options"]["request"] = OPTIONS
    (tmp_path / "piper_tts.json").write_text(json.dumps(spec))
    return {
        "models": [{"id": "p", "family": "piper_tts", "model_spec_override": str(tmp_path / "piper_tts.json")}],
        "audio_roots": [str(tmp_path / "inside")],
    }


@pytest.mark.parametrize(
    ("members", "options"),
    [
        ({"task_route": "edit"}, {"route": "edit"}),
        ({"route": "edit"}, {"route": "edit"}),
        ({"task_route": "edit", "route": "clone"}, {"route": "edit"}),
        ({"repaint_start": 1.5}, {"repainting_start": 1.5}),
        ({"style_tags": {"mood": "calm", "n": [1, 2]}}, {"style_tags": '{"mood":"calm","n":[1,2]}'}),
        ({"seed": 7, "options": {"seed": 8}}, {"seed": 7}),
        ({"seed": "9007199254740993"}, {"seed": 9007199254740993}),
        ({"language": "en-US"}, {"language": "en-US"}),
        ({"language": "en-US", "options": {"language": "en"}}, {"language": "en"}),
    ],
)
async def test_members_set_the_options_of_the_family(
    tmp_path: Path, declaring: dict[str, Any], members: dict[str, Any], options: dict[str, Any]
) -> None:
    script = Script(events=CHUNKS)
    response = await post(tmp_path, script, RUN, {"text": "hello", **members}, **declaring)
    assert response.status_code == 200, await response.get_json()
    assert script.run.request.options == options


async def test_an_option_that_is_a_path_is_held_against_the_roots(tmp_path: Path, declaring: dict[str, Any]) -> None:
    (tmp_path / "inside").mkdir()
    inside, outside = tmp_path / "inside" / "a.wav", tmp_path / "a.wav"
    for path in (inside, outside):
        path.write_bytes(b"FAKE")
    script = Script(events=CHUNKS)
    await post(tmp_path, script, RUN, {"text": "hello", "style_ref": str(inside)}, **declaring)
    assert script.run.request.options == {"style_ref": str(inside)}
    response = await post(tmp_path, Script(), RUN, {"text": "hello", "style_ref": str(outside)}, **declaring)
    assert (await refused(response, 403))[0] == "style_ref"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"task_route": "sing"}, "task_route"),
        ({"repaint_start": "soon"}, "repaint_start"),
        ({"options": {"route": "sing"}}, "options.route"),
        ({"options": {"tempo": 1}}, "options.tempo"),
    ],
)
async def test_a_refused_option_is_named_as_it_was_sent(
    tmp_path: Path, declaring: dict[str, Any], members: dict[str, Any], param: str
) -> None:
    assert (await refused(await post(tmp_path, Script(), RUN, {"text": "hello", **members}, **declaring)))[0] == param


@pytest.mark.parametrize(
    "text", [f"data:audio/wav;base64,{RECORDING}", RECORDING.rstrip("="), f" {RECORDING[:8]}\n{RECORDING[8:]}"]
)
async def test_base64_may_have_a_prefix_spaces_or_no_padding(tmp_path: Path, text: str) -> None:
    script = Script()
    await run(tmp_path, script, model="vad", audio_base64=text)
    assert len(script.runs) == 1


@pytest.mark.parametrize("path", [RUN, STREAM])
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "audio"),
        ({"audio": None}, "audio"),
        ({"audio": 5}, "audio"),
        ({"audio": "/nonexistent"}, "audio"),
        ({"audio": "a", "audio_base64": RECORDING}, "audio_base64"),
        ({"audio_base64": ""}, "audio_base64"),
        ({"audio_base64": "!!!!"}, "audio_base64"),
        ({"audio_base64": "QQ==="}, "audio_base64"),
        ({"audio_base64": "QUJDR"}, "audio_base64"),
        ({"audio_base64": 5}, "audio_base64"),
        ({"audio_base64": base64.b64encode(b"text").decode()}, "audio_base64"),
        ({"request": {"audio_base64": base64.b64encode(b"text").decode()}}, "request.audio_base64"),
        ({"request": {"audio_base64": 5}}, "request.audio_base64"),
        ({"request": []}, "request"),
        ({"busy_timeout_ms": -1}, "busy_timeout_ms"),
        ({"text": 5, "audio_base64": RECORDING}, "text"),
        ({"voice_id": "joe", "audio_base64": RECORDING}, "voice_id"),
        ({"voice_ref": "/a.wav", "audio_base64": RECORDING}, "voice_ref"),
        ({"seed": [1], "audio_base64": RECORDING}, "seed"),
        ({"options": {"tempo": 1}, "audio_base64": RECORDING}, "options.tempo"),
        ({"options": {"language": "en"}, "audio_base64": RECORDING}, "options.language"),
        ({"speaking_rate": 2, "audio_base64": RECORDING}, "speaking_rate"),
    ],
)
async def test_a_bad_recording_task_is_refused(tmp_path: Path, path: str, body: dict[str, Any], param: str) -> None:
    script = Script()
    assert (await refused(await post(tmp_path, script, path, {"model": "vad", **body})))[0] == param
    assert script.runs == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": " "}, "text"),
        ({"text": "hello", "audio": "/a.wav"}, "audio"),
        ({"text": "hello", "voice_id": "nobody"}, "voice_id"),
        ({"text": "hello", "voice_ref": "/a.wav"}, "voice_ref"),
        ({"text": "hello", "voice_ref": {"type": "path", "path": "/a.wav"}}, "voice_ref"),
        ({"text": "hello", "reference_text": "hm"}, "reference_text"),
        ({"text": "hello", "language": "tlh"}, "language"),
        ({"request": {"text": "hello", "language": "tlh"}}, "request.language"),
    ],
)
async def test_a_bad_speech_task_is_refused(tmp_path: Path, body: dict[str, Any], param: str) -> None:
    script = Script()
    assert (await refused(await post(tmp_path, script, RUN, {"model": "piper", **body})))[0] == param
    assert script.runs == []


async def test_an_unknown_model_is_404_on_each_route(tmp_path: Path) -> None:
    for path in (RUN, STREAM):
        assert (await refused(await post(tmp_path, Script(), path, {"model": "nope"}), 404))[0] == "model"


async def test_text_that_cannot_be_spoken_is_named_as_it_was_sent(tmp_path: Path) -> None:
    script = Script(fails=InvalidRequest("there is nothing in the text that can be spoken", param="input"))
    for at, body in (("text", {"text": "…"}), ("request.text", {"request": {"text": "…"}})):
        assert (await refused(await post(tmp_path, script, RUN, {"model": "piper", **body})))[0] == at


# Artifacts.


def artifact(**members: Any) -> dict[str, Any]:
    return {"id": "x", "kind": "midi", "payload": "QUJD", **members}


def without(name: str) -> dict[str, Any]:
    members = artifact()
    del members[name]
    return members


BAD_ARTIFACTS = [
    (artifact(kind="tokens"), "artifacts[0] (x): unknown kind 'tokens'", "artifacts[0].kind"),
    (artifact(kind=5), "artifacts[0] (x): Expected str, got int", "artifacts[0]"),
    (without("kind"), "artifacts[0] (x): Object missing required field kind", "artifacts[0]"),
    (without("id"), "artifacts[0] (): Object missing required field id", "artifacts[0]"),
    (artifact(size=3), "artifacts[0] (x): unknown member 'size'", "artifacts[0].size"),
    (artifact(path="/a"), "artifacts[0] (x): exactly one of payload and path", "artifacts[0].payload"),
    (without("payload"), "artifacts[0] (x): exactly one of payload and path", "artifacts[0].payload"),
    (artifact(payload="!"), "artifacts[0] (x): payload is not valid base64", "artifacts[0].payload"),
    (artifact(payload=None, path="/dev/zero"), "artifacts[0] (x): path: '/dev/zero' is not", "artifacts[0].path"),
    (artifact(meta={"a": []}), "artifacts[0] (x): Expected", "artifacts[0]"),
    (artifact(meta={"a": None}), "artifacts[0] (x): Expected", "artifacts[0]"),
    (5, "artifacts[0] (): expected an object, got a number", "artifacts[0]"),
]
ROUTES = {
    "run": (RUN, lambda request: {"model": "vad", "request": request}, "request."),
    "stream": (STREAM, lambda request: {"model": "vad", **request}, ""),
    "stream, events": (STREAM, lambda request: {"model": "vad", "stream_format": "sse", **request}, ""),
    "batch": ("/v1/tasks/batch", lambda request: {"model": "vad", "requests": [request]}, "requests[0]."),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("bad", "message", "param"), BAD_ARTIFACTS)
async def test_a_malformed_artifact_is_refused_on_every_route(
    tmp_path: Path, route: str, bad: Any, message: str, param: str
) -> None:
    path, body, at = ROUTES[route]
    response = await post(tmp_path, Script(), path, body({"audio_base64": RECORDING, "artifacts": [bad]}))
    assert (await response.get_json())["error"]["type"] == "invalid_request_error"
    named, said = await refused(response)
    assert said.startswith(message)
    assert named == at + param


async def test_artifacts_have_a_bound_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_artifacts, "MAX_BYTES", 5)
    body = {"model": "vad", "audio_base64": RECORDING, "artifacts": [artifact(), artifact(id="y")]}
    param, message = await refused(await post(tmp_path, Script(), RUN, body))
    assert param == "artifacts[1]"
    assert message.startswith("artifacts[1] (y): the artifacts have more than 5 bytes together")


@pytest.mark.parametrize("route", ROUTES)
async def test_good_artifacts_get_as_far_as_the_model(tmp_path: Path, route: str) -> None:
    path, body, _ = ROUTES[route]
    response = await post(tmp_path, Script(), path, body({"audio_base64": RECORDING, "artifacts": [artifact()]}))
    assert (await response.get_json())["error"]["code"] == "model_not_installed"
    assert (await refused(response, 404))[0] == "model"


# Streams.


async def test_events_of_a_recognition_then_its_result(tmp_path: Path) -> None:
    script = Script(events=SENTENCE)
    *events, done, end = await stream(tmp_path, script, model="moonshine", audio_base64=RECORDING)
    assert script.run.request.mode == "streaming"
    assert {event["type"] for event in events} == {"task.stream.event"}
    assert [event["event"] for event in events] == [
        {"partial_text": {"text": "Hello", "language": "en"}, "is_final": False},
        {
            "segments": [{"start_sample": 4000, "end_sample": 10000, "text": "Hello"}],
            "word_timestamps": [{"word": "Hello", "start_sample": 4000, "end_sample": 8000, "confidence": 0.5}],
            "is_final": False,
        },
        {"partial_text": {"text": " world", "language": "en"}, "is_final": False},
        {"is_final": True},
    ]
    assert (done["type"], done["result"]["text"], end) == ("task.stream.done", "Hello world", "[DONE]")
    assert set(done["result"]["timing"]) == {"ttft_ms"}
    assert done["result"]["timing"]["ttft_ms"] >= 0


async def test_without_a_format_the_events_come_in_one_document(tmp_path: Path) -> None:
    streamed = await stream(tmp_path, Script(events=SENTENCE), model="moonshine", audio_base64=RECORDING)
    body = {"model": "moonshine", "audio_base64": RECORDING, "stream_format": None}
    response = await post(tmp_path, Script(events=SENTENCE), STREAM, body)
    answer = await response.get_json()
    assert response.content_type == "application/json"
    assert answer["events"] == [event["event"] for event in streamed[:-2]]
    assert answer["result"]["text"] == "Hello world"


async def test_each_piece_of_speech_is_a_file(tmp_path: Path) -> None:
    *events, done, _ = await stream(tmp_path, Script(events=CHUNKS), model="piper", text="hello")
    pieces = [frames_of(event["event"]["audio"]) for event in events[:-1]]
    assert len(pieces) == 2
    assert frames_of(done["result"]["audio"]) == b"".join(pieces) == bytes(range(8)) + bytes(8)


@pytest.mark.parametrize("model", ["vad", "moonshine"])
async def test_a_silent_recording_has_a_result_and_no_first_event(tmp_path: Path, model: str) -> None:
    final, done, end = await stream(tmp_path, Script(), model=model, audio_base64=RECORDING)
    assert final["event"] == {"is_final": True}
    assert done["result"]["timing"] == {"ttft_ms": None}
    assert end == "[DONE]"


async def test_speech_without_audio_is_an_error(tmp_path: Path) -> None:
    body = {"model": "piper", "text": "hello", "stream_format": "sse"}
    await refused(await post(tmp_path, Script(), STREAM, body), 500)


@pytest.mark.parametrize("stream_format", ["SSE", "audio", "", 1, [], True, {}])
async def test_another_stream_format_is_refused(tmp_path: Path, stream_format: Any) -> None:
    body = {"model": "vad", "audio_base64": RECORDING, "stream_format": stream_format}
    param, message = await refused(await post(tmp_path, Script(), STREAM, body))
    assert param == "stream_format"
    assert message.startswith("task stream stream_format must be sse")


async def test_a_family_that_cannot_stream_is_refused(tmp_path: Path) -> None:
    spec = json.loads((Path(__file__).parents[2] / "model_specs" / "silero_vad.json").read_text())
    (tmp_path / "silero_vad.json").write_text(json.dumps({**spec, "modes": ["offline"]}))
    config = {"models": [{"id": "vad", "family": "silero_vad"}], "model_spec_override": str(tmp_path)}
    param, message = await refused(await post(tmp_path, Script(), STREAM, {"audio_base64": RECORDING}, **config))
    assert (param, message) == ("model", "model 'vad' does not provide streaming execution")


@pytest.mark.parametrize("stream_format", [None, "sse"])
async def test_what_stands_in_the_way_of_a_stream_has_a_status(tmp_path: Path, stream_format: str | None) -> None:
    script = Script(refuses=ServerBusy("all slots are taken"))
    body = {"model": "vad", "audio_base64": RECORDING, "stream_format": stream_format, "busy_timeout_ms": 5}
    await refused(await post(tmp_path, script, STREAM, body), 503)
    assert script.busy_timeouts_ms == [5]


async def test_a_stream_that_fails_ends_with_an_error_event(tmp_path: Path) -> None:
    script = Script(events=SENTENCE, fails=RunFailed("the graph failed"))
    *_, last = await stream(tmp_path, script, model="moonshine", audio_base64=RECORDING)
    assert (last["type"], last["error"]["message"]) == ("error", "the graph failed")
