"""Transcription requests that other servers of this kind got wrong, as people reported it
(`tests/data/reports.json`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.daemon_process import MODELS, DaemonProcess
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors

pytestmark = pytest.mark.integration

URL = "/v1/audio/transcriptions"
PASSAGE = passage("beckett")


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


@pytest.fixture(scope="module")
def recording(audio_files: dict[str, Path]) -> bytes:
    """A recording of `PASSAGE`."""
    return audio_files["beckett.wav"].read_bytes()


def post(client: httpx.Client, recording: bytes, **fields: str | list[str]) -> httpx.Response:
    """A multipart upload; a list is a repeated field, an underscore at the end of a name stands for `[]`."""
    form = {name.replace("__", "[]"): value for name, value in fields.items()}
    return client.post(URL, files={"file": ("speech", recording)}, data=form)


def answered(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    return dict(response.json())


def refused(response: httpx.Response, status: int = 400) -> dict[str, Any]:
    assert response.status_code == status, response.text
    return dict(response.json()["error"])


@pytest.mark.parametrize("language", ["", "en", "en-US", "en-us", "en-NZ", "EN"])
def test_an_empty_language_is_none_and_a_locale_its_language(
    client: httpx.Client, recording: bytes, language: str
) -> None:
    """R17, R18"""
    answer = answered(post(client, recording, model="moonshine", language=language))
    assert word_errors(PASSAGE, answer["text"]) <= MAX_WORD_ERRORS


def test_a_language_of_another_model_is_refused_with_what_this_one_takes(
    client: httpx.Client, recording: bytes
) -> None:
    """R18"""
    error = refused(post(client, recording, model="moonshine", language="xx-YY"))
    assert error["param"] == "language"
    assert "en" in error["message"].partition("xx-YY")[2]


@pytest.mark.parametrize("field", ["timestamp_granularities", "timestamp_granularities__"])
def test_times_of_segments_are_asked_for_with_and_without_brackets(
    client: httpx.Client, recording: bytes, field: str
) -> None:
    """R20"""
    answer = answered(post(client, recording, response_format="verbose_json", **{field: ["segment", "segment"]}))
    assert answer["segments"]


@pytest.mark.parametrize("field", ["timestamp_granularities", "timestamp_granularities__"])
def test_times_of_words_that_a_model_does_not_have_are_refused_not_ignored(
    client: httpx.Client, recording: bytes, field: str
) -> None:
    """R20"""
    form = {field: ["word", "segment"]}
    error = refused(post(client, recording, model="moonshine", response_format="verbose_json", **form))
    assert error["param"] == "timestamp_granularities"
    assert "word" in error["message"]


def test_granularities_of_plain_json_are_refused(client: httpx.Client, recording: bytes) -> None:
    """R20"""
    error = refused(post(client, recording, timestamp_granularities__="segment"))
    assert error["param"] == "timestamp_granularities"


def test_the_default_answer_has_a_text(client: httpx.Client, recording: bytes) -> None:
    """R21"""
    answer = answered(post(client, recording))
    assert set(answer) == {"text", "timing"}
    assert word_errors(PASSAGE, answer["text"]) <= MAX_WORD_ERRORS


def test_verbose_json_has_the_members_of_openai_and_null_for_what_is_not_known(
    client: httpx.Client, recording: bytes
) -> None:
    """R21"""
    answer = answered(post(client, recording, response_format="verbose_json"))
    assert (answer["task"], answer["language"]) == ("transcribe", "en")
    assert answer["duration"] == pytest.approx(wave_seconds(recording), abs=0.01)
    assert "words" not in answer
    known = {"id", "start", "end", "text"}
    unknown = {"seek", "tokens", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob"}
    assert [segment["id"] for segment in answer["segments"]] == list(range(len(answer["segments"])))
    for segment in answer["segments"]:
        assert set(segment) >= known | unknown
        assert all(segment[name] is None for name in unknown)
        assert 0 <= segment["start"] < segment["end"] <= answer["duration"]


def wave_seconds(recording: bytes) -> float:
    """Length of a mono 16-bit WAV file with a header of 44 bytes."""
    return (len(recording) - 44) / 2 / int.from_bytes(recording[24:28], "little")


def test_a_stream_is_deltas_and_one_whole(client: httpx.Client, audio_files: dict[str, Path]) -> None:
    """R24"""
    recording = audio_files["two_cities.wav"].read_bytes()
    response = post(client, recording, model="moonshine", stream="true")
    assert response.headers["Content-Type"].startswith("text/event-stream")
    *lines, end = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    *deltas, done = map(json.loads, lines)
    assert len(deltas) > 1
    assert {delta["type"] for delta in deltas} == {"transcript.text.delta"}
    assert (done["type"], end) == ("transcript.text.done", "[DONE]")
    assert "".join(delta["delta"] for delta in deltas) == done["text"]
    assert word_errors(passage("two_cities"), done["text"]) <= MAX_WORD_ERRORS


def test_a_model_is_found_by_alias_or_by_being_the_only_one(client: httpx.Client, recording: bytes) -> None:
    """R27"""
    assert answered(post(client, recording, model="whisper-1"))["text"] == answered(post(client, recording))["text"]


def test_an_unknown_model_is_answered_with_the_known_ones(client: httpx.Client, recording: bytes) -> None:
    """R27"""
    error = refused(post(client, recording, model="whisper-2"), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert all(str(model["id"]) in error["message"] for model in MODELS)


@pytest.mark.parametrize("model", ["piper", "vad"])
def test_a_model_of_another_task_is_refused(client: httpx.Client, recording: bytes, model: str) -> None:
    """R27"""
    assert refused(post(client, recording, model=model))["param"] == "model"
