"""The recording that a speech request brings: a path on this machine, or base64."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from audiocpp.daemon.errors import BodyTooLarge, InvalidRequest
from audiocpp.daemon.http.audio_source import base64_audio, local_audio

MAX_BYTES = 5 << 20
MAX_BASE64_CHARS = 6_990_508 + 4096
"""`MAX_BYTES` in base64, and room for a `data:` prefix and line breaks."""

TYPES = ("path", "base64")


class VoiceRef(msgspec.Struct, kw_only=True):
    """The long form of a `voice_ref`."""

    type: Annotated[str, Meta(description="`path` or `base64`.")]
    path: Annotated[str | None, Meta(description="Of a recording on the server's machine.")] = None
    data: Annotated[str | None, Meta(description="The recording in base64, or a `data:` URI of it; up to 5 MiB.")] = (
        None
    )


async def sent_recording(voice_ref: str | VoiceRef) -> bytes | Path:
    """What `voice_ref` holds or names; not decoded yet. Raises `InvalidRequest`, `Forbidden` or `BodyTooLarge`."""
    if isinstance(voice_ref, str):
        return await _path(voice_ref, "voice_ref")
    match voice_ref.type:
        case "path":
            return await _path(voice_ref.path, "voice_ref.path")
        case "base64":
            return _data(voice_ref.data, "voice_ref.data")
    raise InvalidRequest(
        f"voice_ref.type: {voice_ref.type!r} is none of {', '.join(TYPES)}",
        param="voice_ref.type",
    )


async def _path(path: str | None, param: str) -> Path:
    if not path:
        raise InvalidRequest(f"{param} is empty: the path of a recording on the server's machine", param=param)
    return await local_audio(path, param)


def _data(text: str | None, param: str) -> bytes:
    if not text:
        raise InvalidRequest(f"{param} is empty: a recording in base64", param=param)
    if len(text) > MAX_BASE64_CHARS:
        raise BodyTooLarge(f"{param}: {len(text)} characters; at most {MAX_BASE64_CHARS} are accepted", param=param)
    data = base64_audio(text, param)
    if len(data) > MAX_BYTES:
        raise BodyTooLarge(f"{param}: {len(data)} bytes; at most {MAX_BYTES} are accepted", param=param)
    return data
