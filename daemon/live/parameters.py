"""The parameters of a live session, from a query string."""

from collections.abc import Mapping

import msgspec

from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.registry import ModelEntry, Registry
from audiocpp.daemon.request_fields import busy_timeout, flag, language_tag, whole_number
from audiocpp.daemon.request_options import request_options
from audiocpp.engines.tasks import AudioFormat, SampleEncoding, TaskRequest

SAMPLE_FORMATS: tuple[SampleEncoding, ...] = ("s16le", "f32le", "mulaw", "alaw")


class LiveParameters(msgspec.Struct, frozen=True, kw_only=True):
    """A validated session to be."""

    entry: ModelEntry
    request: TaskRequest
    audio: AudioFormat
    partials: bool
    words: bool
    busy_timeout_ms: int | None


def live_parameters(query: Mapping[str, str], registry: Registry) -> LiveParameters:
    """Raises `ModelNotFound`, or `InvalidRequest` naming the parameter and what it accepts."""
    entry = registry.resolve(query.get("model") or None, task="asr", mode="streaming")
    audio = audio_format(query)
    partials = flag(query.get("partials"), "partials")
    words = flag(query.get("words"), "words")
    request = TaskRequest(
        task="asr",
        mode="streaming",
        language=language_tag(entry, query.get("language")),
        prompt=query.get("prompt", ""),
        audio=audio,
        options=request_options(
            entry,
            None,
            partials=partials or None,
            words=words or None,
            vad=query.get("vad") or None,
            endpoint_silence_ms=query.get("endpoint_silence_ms") or None,
        ),
    )
    return LiveParameters(
        entry=entry,
        request=request,
        audio=audio,
        partials=partials,
        words=words,
        busy_timeout_ms=busy_timeout(query.get("busy_timeout_ms")),
    )


def resume_offset(query: Mapping[str, str]) -> int | None:
    """The sample that a client goes on with; None: the next one that the session expects."""
    return whole_number(query.get("offset"), "offset", low=0, high=2**53 - 1)


def audio_format(query: Mapping[str, str]) -> AudioFormat:
    """The format of the client's audio. Raises `InvalidRequest`."""
    rate_hz = whole_number(query.get("sample_rate"), "sample_rate", low=1000, high=384_000)
    channels = whole_number(query.get("channels"), "channels", low=1, high=16)
    encoding = query.get("sample_format") or "s16le"
    for known in SAMPLE_FORMATS:
        if encoding == known:
            return AudioFormat(sample_rate=rate_hz or 16_000, channels=channels or 1, encoding=known)
    raise InvalidRequest(f"sample_format: {encoding!r} is none of {', '.join(SAMPLE_FORMATS)}", param="sample_format")
