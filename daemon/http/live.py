"""The routes of live sessions."""

from quart import Blueprint
from quart.blueprints import BlueprintSetupState

from audiocpp.daemon.http.live_page import live_page, live_page_file
from audiocpp.daemon.http.live_speech import live_speech
from audiocpp.daemon.http.live_speech_upload import live_speech_upload
from audiocpp.daemon.http.live_upload import live_upload
from audiocpp.daemon.live.hosting import LiveSessions
from audiocpp.daemon.live.realtime_socket import realtime
from audiocpp.daemon.live.websocket import SESSIONS, live_transcription

TRANSCRIPTIONS = "/v1/audio/transcriptions/live"
PAGE = "/live"
SPEECH = "/v1/audio/speech/live"
RAW_BODIES = frozenset({TRANSCRIPTIONS, SPEECH})
"""Paths whose chunked bodies are answered while they come (`raw_bodies` of the server)."""

live = Blueprint("live", __name__)


@live.record
def _give_sessions(setup: BlueprintSetupState) -> None:
    setup.app.extensions[SESSIONS] = LiveSessions()


live.get(PAGE)(live_page)
live.get(f"{PAGE}/<name>")(live_page_file)
live.websocket(TRANSCRIPTIONS)(live_transcription)
live.post(TRANSCRIPTIONS)(live_upload)
live.websocket("/v1/realtime")(realtime)
live.websocket(SPEECH)(live_speech)
live.post(SPEECH)(live_speech_upload)
