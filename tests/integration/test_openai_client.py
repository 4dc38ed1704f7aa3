"""OpenAI's own client against the daemon: what it sends is taken, and what it reads is there."""

import io
import wave
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from openai import OpenAI
from tests.integration.daemon_process import MODELS, DaemonProcess
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors

pytestmark = pytest.mark.integration

SENTENCE = "It was the best of times, it was the worst of times."


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[OpenAI]:
    http = openai.DefaultHttpxClient(trust_env=False)
    with OpenAI(base_url=f"{daemon.url}/v1", api_key="-", max_retries=0, timeout=60, http_client=http) as client:
        yield client


@pytest.fixture(scope="module")
def recording(audio_files: dict[str, Path]) -> Path:
    return audio_files["beckett.wav"]


def frames_of(data: bytes) -> int:
    with wave.open(io.BytesIO(data)) as file:
        return file.getnframes()


def test_a_transcription_has_its_text(client: OpenAI, recording: Path) -> None:
    transcription = client.audio.transcriptions.create(model="whisper-1", file=recording)
    assert word_errors(passage("beckett"), transcription.text) <= MAX_WORD_ERRORS


def test_a_verbose_transcription_has_its_segments_in_seconds(client: OpenAI, recording: Path) -> None:
    answer = client.audio.transcriptions.create(
        model="whisper-1",
        file=recording,
        language="en",
        response_format="verbose_json",
        timestamp_granularities=["segment"],
    )
    with wave.open(str(recording)) as file:
        assert answer.duration == pytest.approx(file.getnframes() / file.getframerate(), abs=0.1)
    assert answer.language == "en"
    assert answer.segments
    assert " ".join(segment.text.strip() for segment in answer.segments) == answer.text
    assert 0 <= answer.segments[0].start < answer.segments[-1].end <= answer.duration


def test_subtitles_are_text(client: OpenAI, recording: Path) -> None:
    subtitles = client.audio.transcriptions.create(model="whisper-1", file=recording, response_format="srt")
    assert isinstance(subtitles, str)
    assert subtitles.startswith("1\n00:00:0")


def test_a_streamed_transcription_is_deltas_and_the_whole(client: OpenAI, recording: Path) -> None:
    with client.audio.transcriptions.create(model="whisper-1", file=recording, stream=True) as stream:
        *deltas, done = stream
    assert {delta.type for delta in deltas} == {"transcript.text.delta"}
    assert done.type == "transcript.text.done"
    assert "".join(delta.delta for delta in deltas) == done.text
    assert word_errors(passage("beckett"), done.text) <= MAX_WORD_ERRORS


def test_speech_is_a_file(client: OpenAI, tmp_path: Path) -> None:
    speech = client.audio.speech.create(model="tts-1", voice="joe", input=SENTENCE, response_format="wav")
    speech.write_to_file(tmp_path / "speech.wav")
    assert frames_of((tmp_path / "speech.wav").read_bytes()) > 22050
    heard = client.audio.transcriptions.create(model="whisper-1", file=tmp_path / "speech.wav")
    assert word_errors(SENTENCE, heard.text) <= MAX_WORD_ERRORS


def test_streamed_speech_arrives_in_pieces(client: OpenAI) -> None:
    speech = client.audio.speech.with_streaming_response
    text = f"{SENTENCE} {SENTENCE}"
    with speech.create(
        model="tts-1", voice="joe", input=text, response_format="pcm", stream_format="audio"
    ) as response:
        pieces = list(response.iter_bytes())
    assert len(pieces) > 1
    assert len(b"".join(pieces)) % 2 == 0


def test_models_are_listed_with_their_ids(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [model["id"] for model in MODELS]
    assert client.models.retrieve("whisper-1").id == "moonshine"


def test_a_voice_of_openai_is_spoken_by_a_model_that_has_none_of_the_name(client: OpenAI) -> None:
    spoken = client.audio.speech.with_raw_response.create(
        model="tts-1", voice="alloy", input=SENTENCE, response_format="wav"
    )
    assert spoken.content.startswith(b"RIFF")
    assert spoken.headers["X-AudioCPP-Voice"] not in ("", "alloy")


def test_errors_are_those_of_the_client(client: OpenAI, recording: Path) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.audio.transcriptions.create(model="gpt-4o-transcribe", file=recording)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as refusal:
        client.audio.speech.create(model="tts-1", voice="nobody", input=SENTENCE)
    assert (refusal.value.param, refusal.value.type) == ("voice", "invalid_request_error")
