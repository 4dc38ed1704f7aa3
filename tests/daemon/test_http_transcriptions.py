"""POST /v1/audio/transcriptions: what is accepted, what is refused and how, and the replies' formats."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import trio
from quart.datastructures import FileStorage
from tests.fakes.services import Script, fake_app

from audiocpp.daemon.backend import EXTENSION
from audiocpp.daemon.errors import ModelNotInstalled, RunFailed, ServerBusy
from audiocpp.daemon.http.collect import Recognition
from audiocpp.daemon.http.transcript_formats import verbose_json
from audiocpp.engines.tasks import Segment, TextDelta, Word

URL = "/v1/audio/transcriptions"
PCM = b"\0\0\0\0" * 4
FIELD = b'--x\r\nContent-Disposition: form-data; name="prompt"'
SPOKEN = Script(
    events=[
        TextDelta("Hello"),
        Segment(index=0, start=0.5, end=1.25, text="Hello", words=[Word(word="Hello", start=0.5, end=1.0)]),
        TextDelta(" world"),
        Segment(index=1, start=3661.0, end=3662.5, text=" world"),
    ]
)


def spoken(**members: Any) -> Script:
    return Script(events=SPOKEN.events, **members)


async def send_form(folder: Path, script: Script, file: bytes | None = b"FAKE" + PCM, **fields: str) -> Any:
    """A multipart upload. An underscore at the end of a field's name stands for `[]`."""
    client = fake_app(folder, script).test_client()
    files = {} if file is None else {"file": FileStorage(BytesIO(file), filename="speech")}
    form = {key.replace("__", "[]"): value for key, value in fields.items()}
    with trio.fail_after(5):
        return await client.post(URL, form=form, files=files)


async def send_json(folder: Path, script: Script, body: bytes, **config: Any) -> Any:
    client = fake_app(folder, script, **config).test_client()
    with trio.fail_after(5):
        return await client.post(URL, data=body)


async def refusal(response: Any, status: int = 400) -> tuple[str, str]:
    """`param` and message of an error."""
    error = (await response.get_json())["error"]
    assert response.status_code == status, error
    return error["param"], error["message"]


def events_of(body: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def test_an_upload_becomes_text(tmp_path: Path) -> None:
    script = spoken()
    response = await send_form(tmp_path, script, model="moonshine")
    assert await response.get_json() == {
        "text": "Hello world",
        "timing": {"wall_ms": 250.0, "audio_duration_ms": 2000.0, "rtf": 0.125},
    }
    assert bytes(script.run.pushed) == PCM


async def test_the_only_offline_model_need_not_be_named(tmp_path: Path) -> None:
    assert (await send_form(tmp_path, spoken())).status_code == 200


async def test_an_alias_names_the_model(tmp_path: Path) -> None:
    assert (await send_form(tmp_path, spoken(), model="whisper-1")).status_code == 200


async def test_an_empty_language_is_no_language(tmp_path: Path) -> None:
    script = spoken()
    await send_form(tmp_path, script, language="")
    assert script.run.request.language == ""


@pytest.mark.parametrize("language", ["en-US", "en-us", "en_NZ", "EN"])
async def test_a_locale_is_reduced_to_the_language(tmp_path: Path, language: str) -> None:
    script = spoken()
    await send_form(tmp_path, script, language=language)
    assert script.run.request.language == "en"


async def test_a_language_that_the_model_does_not_take_is_refused(tmp_path: Path) -> None:
    param, message = await refusal(await send_form(tmp_path, spoken(), language="tlh"))
    assert param == "language"
    assert "en" in message


async def test_a_part_larger_than_memory_is_spooled_and_removed(tmp_path: Path) -> None:
    script = spoken()
    large = bytes(3 << 20)
    response = await send_form(tmp_path, script, file=b"FAKE" + large)
    assert response.status_code == 200
    assert bytes(script.run.pushed) == large
    assert list((tmp_path / "cache").rglob("upload-*")) == []


async def test_a_spooled_part_is_removed_after_an_error(tmp_path: Path) -> None:
    await refusal(await send_form(tmp_path, spoken(), file=bytes(3 << 20)))
    assert list((tmp_path / "cache").rglob("upload-*")) == []


async def test_of_repeated_files_only_the_last_is_kept(tmp_path: Path) -> None:
    def file(data: bytes) -> bytes:
        return b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + data + b"\r\n"

    large = bytes(2 << 20)
    script = spoken()
    app = fake_app(tmp_path, script, max_spool_bytes=len(large) + 4)
    with trio.fail_after(5):
        response = await app.test_client().post(
            URL,
            data=3 * file(b"FAKE" + large) + b"--x--",
            headers={"Content-Type": "multipart/form-data; boundary=x"},
        )
    assert response.status_code == 200
    assert bytes(script.run.pushed) == large
    assert app.extensions[EXTENSION].spool.used_bytes == 0


async def test_options_that_are_no_object_are_named(tmp_path: Path) -> None:
    assert await refusal(await send_form(tmp_path, spoken(), options="[1]")) == (
        "options",
        "options must be a JSON object, not an array",
    )


async def test_a_container_without_samples_is_empty_text_without_a_model(tmp_path: Path) -> None:
    script = Script(refuses=ModelNotInstalled("the model is not needed"))
    response = await send_form(tmp_path, script, file=b"FAKE")
    assert (await response.get_json())["text"] == ""
    assert script.runs == []


async def test_an_empty_part_is_refused(tmp_path: Path) -> None:
    param, message = await refusal(await send_form(tmp_path, spoken(), file=b""))
    assert (param, message) == ("file", "file is empty: it has 0 bytes")


@pytest.mark.parametrize("data", [b"x", b"hello, this is a text"])
async def test_a_file_that_is_not_audio_is_refused_before_any_load(tmp_path: Path, data: bytes) -> None:
    script = spoken()
    param, _ = await refusal(await send_form(tmp_path, script, file=data))
    assert param == "file"
    assert script.runs == []


async def test_a_form_without_a_file_is_refused(tmp_path: Path) -> None:
    assert (await refusal(await send_form(tmp_path, spoken(), file=None, model="moonshine")))[0] == "file"


async def test_an_unknown_model_is_404_with_those_configured(tmp_path: Path) -> None:
    response = await send_form(tmp_path, spoken(), model="gpt-4o-transcribe")
    assert (await response.get_json())["error"]["code"] == "model_not_found"
    _, message = await refusal(response, 404)
    assert "moonshine, moonshine-live" in message


async def test_a_model_of_another_task_is_refused(tmp_path: Path) -> None:
    assert (await refusal(await send_form(tmp_path, spoken(), model="piper")))[0] == "model"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream": "perhaps"}, "stream"),
        ({"busy_timeout_ms": "-1"}, "busy_timeout_ms"),
        ({"busy_timeout_ms": "soon"}, "busy_timeout_ms"),
        ({"response_format": "docx"}, "response_format"),
        ({"response_format": "srt", "stream": "true"}, "response_format"),
        ({"timestamp_granularities__": "word"}, "timestamp_granularities"),
        ({"response_format": "verbose_json", "timestamp_granularities__": "phoneme"}, "timestamp_granularities"),
        ({"file_url": "http://127.0.0.1/speech.wav"}, "file_url"),
        ({"options": '{"beam": 5}'}, "options.beam"),
        ({"options": '{"vad": "maybe"}'}, "options.vad"),
        ({"response_format": "verbose_json", "timestamp_granularities__": "word"}, "timestamp_granularities"),
    ],
)
async def test_a_bad_field_is_named(tmp_path: Path, fields: dict[str, str], param: str) -> None:
    assert (await refusal(await send_form(tmp_path, spoken(), **fields)))[0] == param


async def test_a_busy_model_is_503_with_a_time(tmp_path: Path) -> None:
    script = Script(refuses=ServerBusy("all slots are taken", retry_after_s=2.5))
    response = await send_form(tmp_path, script, busy_timeout_ms="50")
    await refusal(response, 503)
    assert response.headers["Retry-After"] == "3"
    assert script.busy_timeouts_ms == [50]


async def test_a_failed_run_is_its_own_error_not_a_group(tmp_path: Path) -> None:
    response = await send_form(tmp_path, Script(fails=RunFailed("the graph failed")))
    assert (await refusal(response, 500))[1] == "the graph failed"


async def test_an_unexpected_error_shows_nothing_of_itself(tmp_path: Path) -> None:
    response = await send_form(tmp_path, Script(fails=ZeroDivisionError("secret path")))  # type: ignore[arg-type]
    assert "secret" not in (await refusal(response, 500))[1]


async def test_json_names_a_path_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"FAKE" + PCM)
    for field in ("audio", "audio_path", "file"):
        body = json.dumps({"model": "moonshine", field: str(tmp_path / "a.wav"), "stream": None}).encode()
        assert (await (await send_json(tmp_path, spoken(), body)).get_json())["text"] == "Hello world"


async def test_a_path_outside_the_roots_is_refused_alike_whether_or_not_it_exists(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.wav").write_bytes(b"FAKE" + PCM)
    (tmp_path / "inside" / "link.wav").symlink_to(tmp_path / "secret.wav")
    messages = set()
    for name in ("secret.wav", "missing.wav", "inside/../secret.wav", "inside/link.wav"):
        body = json.dumps({"audio": str(tmp_path / name)}).encode()
        response = await send_json(tmp_path, spoken(), body, audio_roots=[str(tmp_path / "inside")])
        param, message = await refusal(response, 403)
        assert param == "audio"
        messages.add(message.replace(repr(str(tmp_path / name)), "PATH"))
    assert len(messages) == 1


@pytest.mark.parametrize("path", ["/nonexistent.wav", "/dev/zero", "/", "a\u0000b", 5])
async def test_a_path_that_is_no_file_is_refused(tmp_path: Path, path: Any) -> None:
    assert (await refusal(await send_json(tmp_path, spoken(), json.dumps({"audio": path}).encode())))[0] == "audio"


@pytest.mark.parametrize("url", ["http://127.0.0.1/speech.wav", "file:///etc/passwd", ""])
async def test_nothing_is_fetched(tmp_path: Path, url: str) -> None:
    body = {"file_url": url, "audio": "/etc/hostname"}
    assert (await refusal(await send_json(tmp_path, spoken(), json.dumps(body).encode())))[0] == "file_url"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is empty"),
        (b"{", "Expecting property name"),
        (b'{"audio": "a"} x', "Extra data"),
        (b'{"audio": "a", "audio": "b"}', "duplicate json object key: audio"),
        (b'{"options": {"a": 1, "a": 2}}', "duplicate json object key: a"),
        (b'{"options": {"a": NaN}}', "NaN is not a JSON number"),
        (b"[]", "must be a JSON object, not an array"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
)
async def test_json_that_is_not_valid_is_refused_with_the_reason(tmp_path: Path, body: bytes, reason: str) -> None:
    assert reason in (await refusal(await send_json(tmp_path, spoken(), body)))[1]


async def test_a_wrong_type_is_named_by_its_path(tmp_path: Path) -> None:
    param, message = await refusal(await send_json(tmp_path, spoken(), b'{"audio": "a", "options": []}'))
    assert (param, message) == ("options", "options: expected object | null, got array")


async def test_a_declared_length_above_the_limit_is_refused_unread(tmp_path: Path) -> None:
    client = fake_app(tmp_path, spoken()).test_client()
    with trio.fail_after(5):
        response = await client.post(
            URL, headers={"Content-Length": "3000000000", "Content-Type": "multipart/form-data; boundary=x"}
        )
    assert "exceeds the maximum of 2147483648 bytes" in (await refusal(response, 413))[1]


async def test_a_body_that_grows_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    client = fake_app(tmp_path, spoken(), max_request_body_bytes=1000).test_client()
    with trio.fail_after(5):
        async with client.request(URL, method="POST") as connection:
            await connection.send(bytes(2000))
            await connection.send_complete()
            response = await connection.as_response()
    await refusal(response, 413)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"no boundary at all", "ends before the closing boundary"),
        (b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nFAKE', "ends before the closing boundary"),
        (b"--x\r\nContent-Type: text/plain\r\n\r\nFAKE\r\n--x--", "Content-Disposition"),
        (b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n\xff\r\n--x--', "file is required"),
        (b"-" * 100_000, "the boundary does not occur in its first 64 KiB"),
        (FIELD + b"\r\n\r\n\r\n--x\r\nA: " + b"a" * 100_000, "the headers of a part have more than 64 KiB"),
        (FIELD + b"\r\n\r\n\r\n--x--" + b"a" * 100_000, "more than 64 KiB after its closing boundary"),
        (3 * (FIELD + b"\r\n\r\n" + b"a" * 400_000 + b"\r\n"), "prompt: the fields of a form may have 1048576 bytes"),
    ],
    ids=["no boundary", "cut off", "no disposition", "no file", "preamble", "headers", "epilogue", "fields"],
)
async def test_a_broken_multipart_body_is_refused(tmp_path: Path, body: bytes, reason: str) -> None:
    client = fake_app(tmp_path, spoken()).test_client()
    with trio.fail_after(5):
        response = await client.post(URL, data=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert reason in (await refusal(response))[1]


@pytest.mark.parametrize(
    "content_type", ['multipart/form-data; boundary="x y"', "multipart/form-data; a=b; boundary=x y"]
)
async def test_boundaries_may_be_quoted_lines_may_end_in_lf_and_the_last_part_wins(
    tmp_path: Path, content_type: str
) -> None:
    script = spoken()
    part = b'--x y \nContent-Disposition: form-data; name="file"; filename="a"\n\n'
    body = b"preamble\n" + part + b"FAKEold0\n" + part + b"FAKE\0--x \n\n--x yz\n\n--x y--"
    client = fake_app(tmp_path, script).test_client()
    with trio.fail_after(5):
        response = await client.post(URL, data=body, headers={"Content-Type": content_type.replace("=x y", '="x y"')})
    assert response.status_code == 200
    assert bytes(script.run.pushed) == b"\0--x \n\n--x yz\n"


async def test_a_stream_is_deltas_then_the_whole(tmp_path: Path) -> None:
    response = await send_form(tmp_path, spoken(), stream="true")
    assert response.content_type == "text/event-stream; charset=utf-8"
    *deltas, done, end = events_of(await response.get_data(as_text=True))
    assert [(event["type"], event["delta"]) for event in deltas] == [
        ("transcript.text.delta", "Hello"),
        ("transcript.text.delta", " world"),
    ]
    assert (done["type"], done["text"], end) == ("transcript.text.done", "Hello world", "[DONE]")
    assert done["timing"]["ttft_ms"] >= 0


async def test_a_stream_that_cannot_start_has_a_status(tmp_path: Path) -> None:
    await refusal(await send_form(tmp_path, Script(refuses=ServerBusy("busy")), stream="true"), 503)
    await refusal(await send_form(tmp_path, spoken(), file=b"text", stream="true"), 400)


async def test_a_stream_that_fails_ends_with_an_error_event(tmp_path: Path) -> None:
    response = await send_form(tmp_path, spoken(fails=RunFailed("the graph failed")), stream="true")
    last = events_of(await response.get_data(as_text=True))[-1]
    assert response.status_code == 200
    assert (last["type"], last["error"]["message"]) == ("error", "the graph failed")


async def test_text_is_plain(tmp_path: Path) -> None:
    response = await send_form(tmp_path, spoken(), response_format="text")
    assert response.content_type == "text/plain; charset=utf-8"
    assert await response.get_data(as_text=True) == "Hello world\n"


async def test_srt_counts_from_one_with_commas(tmp_path: Path) -> None:
    response = await send_form(tmp_path, spoken(), response_format="srt")
    assert await response.get_data(as_text=True) == (
        "1\n00:00:00,500 --> 00:00:01,250\nHello\n\n2\n01:01:01,000 --> 01:01:02,500\nworld\n\n"
    )


async def test_vtt_has_a_header_and_points(tmp_path: Path) -> None:
    response = await send_form(tmp_path, spoken(), response_format="vtt")
    assert response.content_type == "text/vtt; charset=utf-8"
    assert await response.get_data(as_text=True) == (
        "WEBVTT\n\n00:00:00.500 --> 00:00:01.250\nHello\n\n01:01:01.000 --> 01:01:02.500\nworld\n"
    )


@pytest.mark.parametrize(("name", "body"), [("srt", ""), ("vtt", "WEBVTT\n")])
async def test_subtitles_of_nothing_are_empty(tmp_path: Path, name: str, body: str) -> None:
    response = await send_form(tmp_path, spoken(), file=b"FAKE", response_format=name)
    assert await response.get_data(as_text=True) == body


async def test_verbose_json_has_what_openai_clients_read(tmp_path: Path) -> None:
    body = await (await send_form(tmp_path, spoken(), response_format="verbose_json")).get_json()
    assert (body["task"], body["language"], body["duration"], body["text"]) == ("transcribe", "en", 2.0, "Hello world")
    assert [(row["id"], row["start"], row["end"], row["text"]) for row in body["segments"]] == [
        (0, 0.5, 1.25, "Hello"),
        (1, 3661.0, 3662.5, " world"),
    ]
    assert body["segments"][0]["avg_logprob"] is None
    assert "words" not in body


@pytest.mark.parametrize("field", ["timestamp_granularities__", "timestamp_granularities"])
async def test_segments_are_there_when_asked_for_by_either_name(tmp_path: Path, field: str) -> None:
    response = await send_form(tmp_path, spoken(), response_format="verbose_json", **{field: "segment"})
    assert len((await response.get_json())["segments"]) == 2


async def test_words_are_there_when_asked_for() -> None:
    result = Recognition(segments=[event for event in SPOKEN.events if isinstance(event, Segment)])
    response = verbose_json(result, language="en", granularities={"word"})
    body = json.loads(await response.get_data())
    assert body["words"] == [{"word": "Hello", "start": 0.5, "end": 1.0}]
    assert "segments" not in body


async def send_details(folder: Path, script: Script, file: bytes = b"FAKE" + PCM, **fields: str) -> Any:
    client = fake_app(folder, script).test_client()
    files = {"file": FileStorage(BytesIO(file), filename="speech")}
    with trio.fail_after(5):
        return await client.post(f"{URL}/details", form=fields, files=files)


async def test_details_have_places_in_samples_of_the_recording(tmp_path: Path) -> None:
    answer = await (await send_details(tmp_path, spoken(), model="moonshine")).get_json()
    assert list(answer.items()) == [
        ("text", "Hello world"),
        ("language", "en"),
        (
            "segments",
            [
                {"start_sample": 4000, "end_sample": 10000, "text": "Hello"},
                {"start_sample": 29288000, "end_sample": 29300000, "text": " world"},
            ],
        ),
        ("words", [{"word": "Hello", "start_sample": 4000, "end_sample": 8000}]),
        ("sample_rate", 8000),
        ("timing", {"wall_ms": 250.0, "audio_duration_ms": 2000.0, "rtf": 0.125}),
    ]


async def test_details_come_by_path_too_and_from_a_streaming_entry(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"FAKE" + PCM)
    script = spoken()
    client = fake_app(tmp_path, script).test_client()
    body = {"model": "moonshine-live", "audio": str(tmp_path / "a.wav"), "response_format": "json"}
    with trio.fail_after(5):
        response = await client.post(f"{URL}/details", data=json.dumps(body).encode())
    assert (await response.get_json())["sample_rate"] == 8000
    assert script.run.request.mode == "offline"


async def test_details_of_silence_are_an_empty_text(tmp_path: Path) -> None:
    answer = await (await send_details(tmp_path, Script())).get_json()
    assert set(answer) == {"text", "language", "timing"}
    assert answer["text"] == ""


@pytest.mark.parametrize(
    ("fields", "file", "param"),
    [
        ({"stream": "true"}, b"FAKE", "stream"),
        ({"response_format": "verbose_json"}, b"FAKE", "response_format"),
        ({"timestamp_granularities": "phoneme"}, b"FAKE", "timestamp_granularities"),
        ({"model": "piper"}, b"FAKE", "model"),
        ({}, b"", "file"),
        ({}, b"text", "file"),
    ],
)
async def test_bad_details_are_refused(tmp_path: Path, fields: dict[str, str], file: bytes, param: str) -> None:
    assert (await refusal(await send_details(tmp_path, spoken(), file, **fields)))[0] == param
