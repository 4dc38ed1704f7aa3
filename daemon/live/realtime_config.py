"""The configuration of a Realtime transcription session, in the two shapes that OpenAI's API has had.

Since its general availability: `{"type": "transcription", "audio": {"input": {...}}}`. Before, in beta: the same
settings beside each other, `input_audio_format` and so on. Both are read; a session answers in the shape of its client.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.registry import ModelEntry, Registry
from audiocpp.daemon.request_fields import language_tag
from audiocpp.daemon.request_options import request_options
from audiocpp.engines.tasks import AudioFormat, SampleEncoding, TaskRequest

Shape = Literal["ga", "beta"]

PCM_RATE_HZ = 24_000
TELEPHONE_RATE_HZ = 8000
DEFAULT_SILENCE_MS = 500
MIN_RATE_HZ, MAX_RATE_HZ = 1000, 384_000

_ENCODINGS: dict[str, tuple[SampleEncoding, int]] = {
    "audio/pcm": ("s16le", PCM_RATE_HZ),
    "audio/pcmu": ("mulaw", TELEPHONE_RATE_HZ),
    "audio/pcma": ("alaw", TELEPHONE_RATE_HZ),
}
_BETA_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_BETA_SETTINGS = {
    "input_audio_format": "format",
    "input_audio_transcription": "transcription",
    "input_audio_noise_reduction": "noise_reduction",
    "turn_detection": "turn_detection",
}
_TOLD = frozenset({"session.id", "session.object", "session.expires_at"})
"""What a client may send back that was told of its session."""

_TRANSCRIPTION_TEXTS = ("language", "prompt")
_DETECTION_NUMBERS = ("threshold", "prefix_padding_ms", "silence_duration_ms")


class RealtimeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is set to. `entry` is None until a model is named, where there are several.

    `detects`: the server finds the turns; `silence_ms` ends one, None: the model's default.
    """

    entry: ModelEntry | None
    audio: AudioFormat = AudioFormat(sample_rate=PCM_RATE_HZ, encoding="s16le")
    language: str = ""
    prompt: str = ""
    detects: bool = True
    silence_ms: int | None = None

    def request(self) -> TaskRequest:
        """What is asked of the model. Raises `InvalidRequest` for what it cannot do."""
        entry = self.entry
        assert entry is not None
        return TaskRequest(
            task="asr",
            mode="streaming",
            language=language_tag(entry, self.language),
            prompt=self.prompt,
            audio=self.audio,
            options=request_options(
                entry,
                None,
                vad=None if self.detects else "off",
                endpoint_silence_ms=self.silence_ms if self.detects else None,
            ),
        )

    def described(self, session_id: str, shape: Shape) -> dict[str, Any]:
        """The session as its client is told of it."""
        transcription = {
            "model": self.entry.id if self.entry else None,
            "language": self.language or None,
            "prompt": self.prompt or None,
        }
        silence_ms = DEFAULT_SILENCE_MS if self.silence_ms is None else self.silence_ms
        detection = {"type": "server_vad", "silence_duration_ms": silence_ms} if self.detects else None
        head = {"id": session_id, "object": "realtime.transcription_session"}
        mime = next(mime for mime, (encoding, _) in _ENCODINGS.items() if encoding == self.audio.encoding)
        if shape == "beta":
            name = next(name for name, of in _BETA_FORMATS.items() if of == mime)
            return {
                **head,
                "input_audio_format": name,
                "input_audio_transcription": transcription,
                "turn_detection": detection,
                "input_audio_noise_reduction": None,
                "include": None,
            }
        fmt: dict[str, Any] = {"type": mime}
        if mime == "audio/pcm":
            fmt["rate"] = self.audio.sample_rate
        heard = {
            "format": fmt,
            "transcription": transcription,
            "noise_reduction": None,
            "turn_detection": detection,
        }
        return {**head, "type": "transcription", "audio": {"input": heard}, "include": None}


class Refusal(NamedTuple):
    """A setting that is not supported; the others of its update hold. `param` is its path."""

    param: str
    message: str


class _Setting(NamedTuple):
    name: str
    path: str
    value: Any


def updated(config: RealtimeConfig, session: object, registry: Registry) -> tuple[RealtimeConfig, list[Refusal]]:
    """The configuration after an update, and what of it is not supported.

    Raises `InvalidRequest` (or `ModelNotFound`) for an update that is wrong; then nothing of it holds.
    """
    refusals: list[Refusal] = []
    for setting in _settings(_object(session, "session")):
        apply = _APPLY.get(setting.name)
        if apply is not None:
            config = apply(config, setting, registry, refusals)
        elif setting.value is not None and setting.name not in _TOLD:
            refusals.append(_unsupported(setting))
    if config.entry is not None:
        config.request()
    return config, refusals


def _settings(session: Mapping[str, Any]) -> Iterator[_Setting]:
    """The settings of either shape under one name each."""
    for key, value in session.items():
        path = f"session.{key}"
        if key != "audio":
            yield _Setting(_BETA_SETTINGS.get(key, f"session.{key}"), path, value)
            continue
        for side, given in _object(value, path).items():
            if side != "input":
                yield _Setting(f"audio.{side}", f"{path}.{side}", given)
                continue
            for name, inner in _object(given, f"{path}.input").items():
                yield _Setting(name, f"{path}.input.{name}", inner)


def _unsupported(setting: _Setting, accepted: str = "") -> Refusal:
    shown = repr(setting.value) if isinstance(setting.value, str | int | float | bool) else "it"
    return Refusal(setting.path, f"{setting.path}: {shown} is not supported{accepted}")


def _format(config: RealtimeConfig, setting: _Setting, _: Registry, __: list[Refusal]) -> RealtimeConfig:
    value, rate = setting.value, None
    if isinstance(value, dict):
        rate = value.get("rate")
        value = value.get("type", "audio/pcm")
    mime = _BETA_FORMATS.get(value, value) if isinstance(value, str) else None
    if mime not in _ENCODINGS:
        accepted = ", ".join((*_ENCODINGS, *_BETA_FORMATS))
        raise InvalidRequest(f"{setting.path}: {value!r} is none of {accepted}", param=setting.path)
    encoding, usual_hz = _ENCODINGS[mime]
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int) or not _is_rate(rate, mime)):
        accepted = f"{MIN_RATE_HZ} to {MAX_RATE_HZ}" if mime == "audio/pcm" else f"only {TELEPHONE_RATE_HZ}"
        raise InvalidRequest(f"{setting.path}.rate: {rate!r}; accepted: {accepted}", param=f"{setting.path}.rate")
    audio = AudioFormat(sample_rate=rate or usual_hz, encoding=encoding)
    return msgspec.structs.replace(config, audio=audio)


def _is_rate(rate: int, mime: str) -> bool:
    return MIN_RATE_HZ <= rate <= MAX_RATE_HZ if mime == "audio/pcm" else rate == TELEPHONE_RATE_HZ


def _transcription(
    config: RealtimeConfig, setting: _Setting, registry: Registry, refusals: list[Refusal]
) -> RealtimeConfig:
    if setting.value is None:
        refusals.append(Refusal(setting.path, f"{setting.path}: a transcription session always transcribes"))
        return config
    for key, value in _object(setting.value, setting.path).items():
        inner = _Setting(key, f"{setting.path}.{key}", value)
        if key == "model":
            if value is not None:
                config = msgspec.structs.replace(config, entry=_entry(inner, registry))
        elif key in _TRANSCRIPTION_TEXTS:
            config = msgspec.structs.replace(config, **{key: _text(inner)})
        elif value is not None:
            refusals.append(_unsupported(inner))
    return config


def _entry(setting: _Setting, registry: Registry) -> ModelEntry:
    return registry.resolve(_text(setting) or None, task="asr", mode="streaming")


def _detection(config: RealtimeConfig, setting: _Setting, _: Registry, refusals: list[Refusal]) -> RealtimeConfig:
    if setting.value is None:
        return msgspec.structs.replace(config, detects=False, silence_ms=None)
    given = _object(setting.value, setting.path)
    if given.get("type", "server_vad") != "server_vad":
        kind = _Setting("type", f"{setting.path}.type", given["type"])
        refusals.append(_unsupported(kind, "; accepted: server_vad, or null instead of the object"))
        return config
    for key, value in given.items():
        inner = _Setting(key, f"{setting.path}.{key}", value)
        number = _number(inner) if key in _DETECTION_NUMBERS else None
        if key == "threshold" and number not in (None, 0.5):
            refusals.append(_unsupported(inner, "; the detector's own is 0.5"))
        elif key not in ("type", *_DETECTION_NUMBERS) and value not in (None, False):
            refusals.append(_unsupported(inner))
    silence_ms = given.get("silence_duration_ms")
    return msgspec.structs.replace(config, detects=True, silence_ms=None if silence_ms is None else round(silence_ms))


def _type(config: RealtimeConfig, setting: _Setting, _: Registry, __: list[Refusal]) -> RealtimeConfig:
    if setting.value != "transcription":
        raise InvalidRequest(
            f"{setting.path}: {setting.value!r} is not supported; accepted: transcription", param=setting.path
        )
    return config


def _include(config: RealtimeConfig, setting: _Setting, _: Registry, refusals: list[Refusal]) -> RealtimeConfig:
    if setting.value:
        refusals.append(
            Refusal(setting.path, f"{setting.path}: nothing can be included; log probabilities are not known")
        )
    return config


_Apply = Callable[[RealtimeConfig, _Setting, Registry, list[Refusal]], RealtimeConfig]

_APPLY: dict[str, _Apply] = {
    "format": _format,
    "transcription": _transcription,
    "turn_detection": _detection,
    "session.type": _type,
    "session.include": _include,
}


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"{path} must be an object", param=path)
    return value


def _text(setting: _Setting) -> str:
    if setting.value is None:
        return ""
    if not isinstance(setting.value, str):
        raise InvalidRequest(f"{setting.path} must be text", param=setting.path)
    return setting.value


def _number(setting: _Setting) -> float | None:
    value = setting.value
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise InvalidRequest(f"{setting.path}: {value!r} is no number from 0", param=setting.path)
    return float(value)
