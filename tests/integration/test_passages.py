"""The recordings against their published text, by every way into the daemon; and speech that is heard again.

Word errors allowed: 8 % of the published text (`tests/data/passages`), 5 % between a live session and the file, 10 % of
a text that the daemon speaks itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.integration.daemon_process import DaemonProcess
from tests.integration.live_client import heard, pcm_of
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors
from tests.integration.round_trip import MAX_WORD_ERRORS as MAX_ROUND_TRIP_ERRORS
from tests.integration.round_trip import SENTENCES, spoken_words, words

pytestmark = pytest.mark.integration

MAX_LIVE_DIFFERENCE = 0.05
TRANSCRIPTIONS = "/v1/audio/transcriptions"


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


def text_of(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["text"])


@dataclass(frozen=True)
class Passage:
    """A recording, what it says, and its transcript as an upload."""

    path: Path
    published: str
    uploaded: str


@pytest.fixture(scope="module", params=["two_cities", "beckett"])
def recorded(client: httpx.Client, audio_files: dict[str, Path], request: pytest.FixtureRequest) -> Passage:
    path = audio_files[f"{request.param}.wav"]
    upload = {"file": (path.name, path.read_bytes())}
    uploaded = text_of(client.post(TRANSCRIPTIONS, files=upload, data={"model": "moonshine"}))
    return Passage(path, passage(request.param), uploaded)


def test_an_upload_has_the_published_words(recorded: Passage) -> None:
    assert word_errors(recorded.published, recorded.uploaded) <= MAX_WORD_ERRORS


def test_a_path_gives_the_words_of_the_upload(client: httpx.Client, recorded: Passage) -> None:
    answer = client.post(TRANSCRIPTIONS, json={"model": "moonshine", "audio": str(recorded.path)})
    assert text_of(answer) == recorded.uploaded


async def test_a_live_session_hears_the_words_of_the_upload(daemon: DaemonProcess, recorded: Passage) -> None:
    live = await heard(daemon, pcm_of(recorded.path))
    assert word_errors(recorded.uploaded, live) <= MAX_LIVE_DIFFERENCE
    assert word_errors(recorded.published, live) <= MAX_WORD_ERRORS


@pytest.fixture
def two_speakers(client: httpx.Client, audio_files: dict[str, Path]) -> tuple[Path, str]:
    """A recording of two people, and its transcript as an upload. Its text is not published beside it."""
    path = audio_files["endgame_nagg_nell.wav"]
    upload = {"file": path.read_bytes()}
    return path, text_of(client.post(TRANSCRIPTIONS, files=upload, data={"model": "moonshine"}))


async def test_two_speakers_have_the_same_words_live_as_in_the_upload(
    daemon: DaemonProcess, two_speakers: tuple[Path, str]
) -> None:
    path, uploaded = two_speakers
    assert len(uploaded.split()) > 20
    assert word_errors(uploaded, await heard(daemon, pcm_of(path))) <= MAX_LIVE_DIFFERENCE


def test_sentences_with_figures_come_back_as_they_were_spoken(client: httpx.Client) -> None:
    text = " ".join(SENTENCES)
    spoken = client.post("/v1/audio/speech", json={"model": "piper", "input": text})
    assert spoken.status_code == 200, spoken.text
    upload = {"file": ("spoken.wav", spoken.content)}
    back = text_of(client.post(TRANSCRIPTIONS, files=upload, data={"model": "moonshine"}))
    assert word_errors(spoken_words(text), words(back)) <= MAX_ROUND_TRIP_ERRORS
