"""Which voice a speech request means: presets, the library of recordings, the model's own voices.

A name from a request is only compared with names that are known; it never becomes part of a path.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from audiocpp.daemon.config import VoicePreset

OPENAI_VOICES = frozenset(
    {"alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse"}
)
"""What clients of OpenAI's API must send. A model has such a voice, or is asked for its default one."""

TRANSCRIPTS = "prompt_text"
"""The file beside the recordings that says what is spoken in them, one `name|transcript` a line."""


class Recording(msgspec.Struct, frozen=True):
    """A reference recording and what is said in it; the text is empty when it is not known."""

    path: Path
    transcript: str = ""


class VoiceChoice(msgspec.Struct, frozen=True):
    """What goes to the model.

    Attributes:
        voice_id: a voice of the model; empty for its default.
        voice_ref: a recording to clone from, when the server provides it.
        reference_text: what is said in that recording. A request's own text wins over it.
        options: request options of a preset, as texts. A request's own options win, key by key.
        name: of what speaks: the voice of the model, else the preset or recording; empty for the model's default and
            for a recording of the request.
    """

    voice_id: str = ""
    voice_ref: Path | None = None
    reference_text: str = ""
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    name: str = ""


def choose_voice(
    name: str | None,
    *,
    sends_reference: bool,
    presets: Mapping[str, VoicePreset],
    default: str | VoicePreset | None,
    library: Mapping[str, Recording],
    own: Sequence[str],
) -> VoiceChoice:
    """The voice for a request: a preset, else a recording, else a voice of the model by that name, else the default.

    A name that OpenAI's clients send is the model's voice that carries it, `af_alloy` for `alloy`, else the default.

    Args:
        name: the request's `voice`; empty counts as absent.
        sends_reference: whether the request brings its own recording. It then replaces a preset's, no recording of
            the library is used, and the default does not apply.
        presets, default: of the entry. A `default` that is a string names one of `presets`.
        library: recordings by name; empty for a family that cannot clone.
        own: the voices of the model, as far as they are known.
    """
    if name and name in presets:
        return _of_preset(presets[name], name, sends_reference=sends_reference)
    if name and name in library and not sends_reference:
        return VoiceChoice(voice_ref=library[name].path, reference_text=library[name].transcript, name=name)
    voice = _own_voice(name, own) if name else ""
    if voice:
        return VoiceChoice(voice_id=voice, name=voice)
    return VoiceChoice() if sends_reference or default is None else _of_default(presets, default)


def _own_voice(name: str, own: Sequence[str]) -> str:
    """The model's voice that `name` means; empty for its default."""
    if name not in OPENAI_VOICES or name in own:
        return name
    return next((voice for voice in own if voice.rpartition("_")[2] == name), "")


def _of_default(presets: Mapping[str, VoicePreset], default: str | VoicePreset) -> VoiceChoice:
    if isinstance(default, str):
        return _of_preset(presets[default], default, sends_reference=False)
    return _of_preset(default, "default", sends_reference=False)


def _of_preset(preset: VoicePreset, name: str, *, sends_reference: bool) -> VoiceChoice:
    """A preset's transcript goes with its own recording, and is dropped together with it."""
    replaced = sends_reference and preset.voice_ref is not None
    voice_ref = None if sends_reference else preset.voice_ref
    return VoiceChoice(
        voice_id=preset.voice_id,
        voice_ref=voice_ref,
        reference_text="" if replaced else preset.reference_text,
        options=preset.options,
        name=preset.voice_id or (name if voice_ref else ""),
    )


def named_presets(
    presets: Mapping[str, VoicePreset], default: str | VoicePreset | None
) -> Iterator[tuple[str, VoicePreset]]:
    """All presets of an entry, each with its place in the entry's configuration."""
    for name, preset in presets.items():
        yield f"voice_presets.{name}", preset
    if isinstance(default, VoicePreset):
        yield "default_voice_preset", default


def voice_names(*sources: Iterable[str]) -> list[str]:
    """All names of `sources`, each once, in the order of their UTF-8 bytes."""
    names = {name for source in sources for name in source}
    return sorted(names, key=lambda name: name.encode("utf-8", "surrogatepass"))


def read_library(folder: Path) -> dict[str, Recording]:
    """The recordings `NAME.wav` of a folder, by name. Blocks on the disk. Raises `OSError`."""
    transcripts_file = folder / TRANSCRIPTS
    text = transcripts_file.read_text(encoding="utf-8") if transcripts_file.is_file() else ""
    transcripts = parse_transcripts(text)
    return {
        path.stem: Recording(path, transcripts.get(path.stem, ""))
        for path in folder.iterdir()
        if path.suffix == ".wav" and is_voice_name(path.stem) and path.is_file()
    }


def is_voice_name(name: str) -> bool:
    """Whether a file's stem can be asked for as a voice: printable, and not hidden."""
    return bool(name) and name.isprintable() and not name.startswith(".")


def parse_transcripts(text: str) -> dict[str, str]:
    """`name|transcript` lines; the first of a name counts, lines without `|` are skipped."""
    transcripts: dict[str, str] = {}
    for line in text.split("\n"):
        name, bar, transcript = line.partition("|")
        if bar:
            transcripts.setdefault(name.rstrip(), transcript.removesuffix("\r"))
    return transcripts
