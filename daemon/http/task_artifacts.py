"""The `artifacts` of a request object: results of earlier tasks, given back to a model."""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from audiocpp.daemon.errors import DaemonError, InvalidRequest
from audiocpp.daemon.http.audio_source import base64_audio, local_audio
from audiocpp.daemon.http.json_body import json_type

MAX_BYTES = 2 << 30
"""All artifacts of a request together."""

Kind = Literal[
    "speaker_embedding",
    "style_embedding",
    "prompt_embedding",
    "acoustic_tokens",
    "midi",
    "transcript_alignment",
    "diarization_state",
    "vad_state",
    "custom",
]
KINDS: tuple[str, ...] = get_args(Kind)


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact. It has either a `payload` or a `path`."""

    id: Annotated[str, Meta(description="The client's name for it.")]
    kind: Annotated[Kind, Meta(description="What it is.")]
    payload: Annotated[str | None, Meta(description="Its content in base64.")] = None
    path: Annotated[str | None, Meta(description="Path of a file with its content on the server's machine.")] = None
    meta: Annotated[
        dict[str, str | int | float | bool] | None, Meta(description="Facts about it; strings, numbers or booleans.")
    ] = None


async def check_artifacts(items: list[Any]) -> None:
    """Raises `InvalidRequest`, or `Forbidden` for a path, whose message begins with `artifacts[i] (id): `."""
    total = 0
    for index, item in enumerate(items):
        total += await _checked_bytes(item, index)
        if total > MAX_BYTES:
            raise _refused(item, index, f"the artifacts have more than {MAX_BYTES} bytes together")


async def _checked_bytes(item: object, index: int) -> int:
    """The size of the artifact's content."""
    if not isinstance(item, dict):
        raise _refused(item, index, f"expected an object, got {json_type(item)}")
    for name in item:
        if name not in Artifact.__struct_fields__:
            accepted = ", ".join(Artifact.__struct_fields__)
            raise _refused(item, index, f"unknown member {name!r}; accepted: {accepted}", member=name)
    kind = item.get("kind")
    if isinstance(kind, str) and kind not in KINDS:
        raise _refused(item, index, f"unknown kind {kind!r}; accepted: {', '.join(KINDS)}", member="kind")
    try:
        artifact = msgspec.convert(item, Artifact)
    except msgspec.ValidationError as error:
        raise _refused(item, index, str(error).replace("`", "").replace("$.", "")) from error
    if (artifact.payload is None) == (artifact.path is None):
        has = "neither" if artifact.path is None else "both"
        raise _refused(item, index, f"exactly one of payload and path is needed, it has {has}", member="payload")
    try:
        return await _content_bytes(artifact)
    except DaemonError as error:
        error.message = f"{_named(item, index)}: {error.message}"
        error.param = f"artifacts[{index}].{error.param}"
        raise


async def _content_bytes(artifact: Artifact) -> int:
    if artifact.path is not None:
        return (await local_audio(artifact.path, "path")).stat().st_size
    return len(base64_audio(artifact.payload or "", "payload"))


def _named(item: object, index: int) -> str:
    name = item.get("id") if isinstance(item, dict) else None
    return f"artifacts[{index}] ({name if isinstance(name, str) else ''})"


def _refused(item: object, index: int, what: str, *, member: str = "") -> InvalidRequest:
    param = f"artifacts[{index}]" + (f".{member}" if member else "")
    return InvalidRequest(f"{_named(item, index)}: {what}", param=param)
