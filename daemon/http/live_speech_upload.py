"""POST /v1/audio/speech/live: speech of the reference's models that hear audio while they speak.

It validates as the reference does. No family here hears while it speaks, so every request ends as a refusal.
"""

from collections.abc import Mapping
from typing import Any

from quart import Response, request

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.live_upload import require_chunked
from audiocpp.daemon.http.voices import voice_for
from audiocpp.daemon.live.parameters import audio_format
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.request_fields import busy_timeout, flag, language_tag
from audiocpp.daemon.request_options import COPIED_SCALARS, request_options

RESPONSE_FORMATS = ("pcm",)
STREAM_FORMATS = ("sse", "audio")
OPTIONS = (*COPIED_SCALARS, "reference_text", "system_prompt", "text_temperature", "text_top_k", "do_sample")
"""Parameters that set the option of the same name."""


async def live_speech_upload() -> Response:
    """Speech that answers audio while it comes: refused, as no model here hears audio while it speaks."""
    require_chunked()
    query = request.args
    entry = backend().services.registry.resolve(query.get("model") or None, task="tts", mode="offline")
    audio_format(query)
    busy_timeout(query.get("busy_timeout_ms"))
    language_tag(entry, query.get("language"))
    _check_reply(query)
    if not query.get("input", "").strip():
        raise InvalidRequest("input is required: the text to speak", param="input")
    await voice_for(entry, query.get("voice") or query.get("voice_id") or None)
    _check_options(query, entry)
    raise InvalidRequest(
        f"model {entry.id!r} takes no audio; send its text to /v1/audio/speech, or in pieces to the WebSocket here",
        param="model",
    )


def _check_reply(query: Mapping[str, str]) -> None:
    stream_format = _one_of(query, "stream_format", STREAM_FORMATS)
    _one_of(query, "response_format", RESPONSE_FORMATS)
    if flag(query.get("return_text"), "return_text") and stream_format != "sse":
        raise InvalidRequest("return_text needs stream_format sse", param="return_text")


def _one_of(query: Mapping[str, str], param: str, accepted: tuple[str, ...]) -> str:
    value = query.get(param) or accepted[0]
    if value not in accepted:
        raise InvalidRequest(f"{param}: {value!r} is none of {', '.join(accepted)}", param=param)
    return value


def _check_options(query: Mapping[str, str], entry: ModelEntry) -> None:
    given: dict[str, Any] = {name: query.get(name) or None for name in OPTIONS}
    given["system_prompt"] = given["system_prompt"] or query.get("instructions") or None
    request_options(entry, None, **given)
