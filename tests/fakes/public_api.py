"""The three public routes that the command line uses, answering from a script and keeping what they were sent."""

import io
import json
import wave
from typing import Any

import trio
from quart import Response, request, websocket
from quart_trio import QuartTrio


class PublicApi:
    """`refusal` (status, error code) is answered by every route while it is set.

    Attributes:
        forms, uploads: fields and file parts of the transcription requests.
        speech: bodies of the speech requests.
        query, pcm, pcm_frames: of the live session.
        events: what the live session says when its audio has ended.
        close_code: how it closes after them.
    """

    def __init__(self) -> None:
        self.refusal: tuple[int, str] | None = None
        self.forms: list[dict[str, str]] = []
        self.uploads: list[tuple[str, bytes]] = []
        self.speech: list[Any] = []
        self.query: dict[str, str] = {}
        self.pcm = b""
        self.pcm_frames = 0
        self.events: list[dict[str, Any]] = [{"type": "transcript.text.done", "text": "It was the best of times."}]
        self.close_code = 1000
        self.first_audio = trio.Event()
        self.app = QuartTrio(__name__)
        self.app.config["BODY_TIMEOUT"] = None
        self.app.before_request(self._refused)
        self.app.before_websocket(self._refused)
        self.app.post("/v1/audio/transcriptions")(self._transcribe)
        self.app.post("/v1/audio/speech")(self._speak)
        self.app.websocket("/v1/audio/transcriptions/live")(self._live)

    async def _refused(self) -> Response | None:
        if self.refusal is None:
            return None
        status, code = self.refusal
        body = {"error": {"message": f"refused: {code}", "type": "server_error", "code": code, "param": None}}
        return Response(json.dumps(body), status=status, content_type="application/json")

    async def _transcribe(self) -> dict[str, Any]:
        self.forms.append((await request.form).to_dict())
        file = (await request.files)["file"]
        self.uploads.append((file.filename, file.read()))
        return {"text": "It was the best of times.", "timing": {"wall_ms": 1.5}}

    async def _speak(self) -> Response:
        self.speech.append(await request.get_json())
        headers = {"X-AudioCPP-Wall-Ms": "12.500000", "X-AudioCPP-Audio-Duration-Ms": "1000.000000"}
        return Response(wav_file(bytes(32_000)), content_type="audio/wav", headers=headers)

    async def _live(self) -> None:
        self.query = websocket.args.to_dict()
        await self._say({"type": "session.created", "id": "s1"})
        while isinstance(message := await websocket.receive(), bytes):
            self.pcm += message
            self.pcm_frames += 1
            self.first_audio.set()
        if json.loads(message) == {"type": "end"}:
            for event in self.events:
                await self._say(event)
        await websocket.close(self.close_code)

    async def _say(self, event: dict[str, Any]) -> None:
        await websocket.send(json.dumps(event))


def wav_file(samples: bytes, *, sample_rate: int = 16_000, channels: int = 1, width: int = 2) -> bytes:
    """A WAV file of little-endian integer samples, `width` bytes each."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setframerate(sample_rate)
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.writeframes(samples)
    return buffer.getvalue()
