"""The vocabulary of a request: what is asked of a model and the events it answers with.

Shared by both sides of the wire, so nothing here imports numpy, a runtime or an event loop. PCM travels as bytes.
All times are seconds of the caller's own audio, counted from its first sample.
"""

from typing import Literal

import msgspec

TaskName = Literal["asr", "tts", "vad", "align", "decode", "encode"]
Mode = Literal["offline", "streaming"]
SampleEncoding = Literal["f32le", "s16le", "mulaw", "alaw"]
OptionValue = str | int | float | bool


class AudioFormat(msgspec.Struct, frozen=True, kw_only=True):
    """Raw interleaved PCM. `sample_rate` in Hz."""

    sample_rate: int
    channels: int = 1
    encoding: SampleEncoding = "f32le"

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of all channels."""
        return self.channels * {"f32le": 4, "s16le": 2, "mulaw": 1, "alaw": 1}[self.encoding]


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A recording of the voice to speak with: mono float32 little-endian PCM in [-1, 1].

    `sample_rate` is the family's `input_sample_rate_hz`. What is said in the recording is the request option
    `reference_text`, where the family takes one.
    """

    pcm: bytes
    sample_rate: int


class TaskRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One inference, whatever the transport. Input audio follows as `Push` frames in the format `audio`.

    Args:
        task: what is asked; the model must offer it.
        mode: `streaming` asks for results while the input still flows.
        text: the text to speak (tts), or what is said in the audio (align).
        language: BCP-47 as the client sent it; empty means the model's default or detection.
        prompt: recognition context (asr).
        voice: a voice name of the model; empty means its default.
        reference: a recording to speak like, for families with the capability `speaker_reference`.
        audio: the format of the PCM that will be pushed; None when the task takes no audio.
        options: request options by their declared names.
    """

    task: TaskName
    mode: Mode = "offline"
    text: str = ""
    language: str = ""
    prompt: str = ""
    voice: str = ""
    reference: Reference | None = None
    audio: AudioFormat | None = None
    options: dict[str, OptionValue] = {}


class Word(msgspec.Struct, frozen=True, kw_only=True):
    word: str
    start: float
    end: float
    confidence: float | None = None


class TextDelta(msgspec.Struct, frozen=True, tag="text.delta"):
    """Text that will not change any more. The deltas of a run, joined, are exactly its final text."""

    text: str


class TextPartial(msgspec.Struct, frozen=True, tag="text.partial"):
    """The present guess at the text that follows the deltas sent so far; the next partial replaces it."""

    text: str


class Segment(msgspec.Struct, frozen=True, kw_only=True, tag="segment"):
    """A stretch of speech, final. For `vad` the text is empty."""

    index: int
    start: float
    end: float
    text: str = ""
    confidence: float | None = None
    words: list[Word] = []


class SpeechStarted(msgspec.Struct, frozen=True, tag="speech.started"):
    at: float


class SpeechStopped(msgspec.Struct, frozen=True, tag="speech.stopped"):
    at: float


class SpeechAnswered(msgspec.Struct, frozen=True, tag="speech.answered"):
    """All text of the speech that stopped last has been sent. There may have been none: a cough is speech at first."""


class Finalized(msgspec.Struct, frozen=True, tag="finalized"):
    """All that was heard before the `Finalize` of this id has been answered."""

    id: str


class AudioChunk(msgspec.Struct, frozen=True, kw_only=True, tag="audio"):
    """Generated or decoded audio: interleaved float32 little-endian PCM in [-1, 1]."""

    pcm: bytes
    sample_rate: int
    channels: int = 1


class AudioInfo(msgspec.Struct, frozen=True, kw_only=True, tag="audio.info"):
    """What a decoded file is. `duration_s` is None where the container does not say."""

    container: str
    codec: str
    sample_rate: int
    channels: int
    duration_s: float | None = None


class EncodedData(msgspec.Struct, frozen=True, tag="encoded"):
    """A piece of an encoded file, in order; with `at`, what replaces bytes of the file from that offset."""

    data: bytes
    at: int | None = None


TaskEvent = (
    TextDelta
    | TextPartial
    | Segment
    | SpeechStarted
    | SpeechStopped
    | SpeechAnswered
    | Finalized
    | AudioChunk
    | AudioInfo
    | EncodedData
)
