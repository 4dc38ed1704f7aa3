"""Which voice a request means, and which voices are listed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from audiocpp.daemon.config import VoicePreset
from audiocpp.daemon.voices import Recording, VoiceChoice, choose_voice, parse_transcripts, read_library, voice_names

ANNA = Path("/voices/anna.wav")
OWN = Path("/presets/own.wav")
LIBRARY = {"anna": Recording(ANNA, "Hello."), "narrator": Recording(Path("/voices/narrator.wav"))}
PRESETS = {
    "narrator": VoicePreset(voice_id="joe", voice_ref=OWN, reference_text="Mine.", options={"speed": "2"}),
    "text": VoicePreset(reference_text="Said before."),
}


OWN_VOICES = ("af_heart", "af_alloy", "am_echo", "bm_fable", "am_onyx")


def choose(
    name: str | None,
    *,
    sends_reference: bool = False,
    default: str | VoicePreset | None = None,
    presets: Mapping[str, VoicePreset] = PRESETS,
    library: Mapping[str, Recording] = LIBRARY,
    own: Sequence[str] = OWN_VOICES,
) -> VoiceChoice:
    return choose_voice(
        name, sends_reference=sends_reference, presets=presets, default=default, library=library, own=own
    )


def test_preset_wins_over_a_recording_of_the_same_name() -> None:
    assert choose("narrator") == VoiceChoice("joe", OWN, "Mine.", {"speed": "2"}, "joe")


def test_recording_is_cloned_with_its_transcript() -> None:
    assert choose("anna") == VoiceChoice(voice_ref=ANNA, reference_text="Hello.", name="anna")


@pytest.mark.parametrize("name", ["af_heart", "../anna", "/voices/anna", ".", "anna.wav"])
def test_any_other_name_is_left_to_the_model(name: str) -> None:
    assert choose(name) == VoiceChoice(voice_id=name, name=name)


def test_recording_of_the_request_leaves_the_name_to_the_model() -> None:
    assert choose("anna", sends_reference=True) == VoiceChoice(voice_id="anna", name="anna")


def test_recording_of_the_request_replaces_that_of_a_preset_and_its_transcript() -> None:
    assert choose("narrator", sends_reference=True) == VoiceChoice("joe", None, "", {"speed": "2"}, "joe")
    assert choose("text", sends_reference=True) == VoiceChoice(reference_text="Said before.")


@pytest.mark.parametrize("absent", [None, ""])
def test_absent_voice_is_the_default_preset(absent: str | None) -> None:
    assert choose(absent, default="narrator").voice_id == "joe"
    assert choose(absent, default=VoicePreset(voice_id="bob")) == VoiceChoice("bob", name="bob")
    assert choose(absent) == VoiceChoice()


def test_default_preset_does_not_apply_to_a_request_with_a_recording() -> None:
    assert choose(None, sends_reference=True, default="narrator") == VoiceChoice()


@pytest.mark.parametrize(
    ("name", "voice"),
    [("alloy", "af_alloy"), ("echo", "am_echo"), ("fable", "bm_fable"), ("onyx", "am_onyx"), ("shimmer", "")],
)
def test_a_name_of_openai_is_the_voice_that_carries_it_else_the_default(name: str, voice: str) -> None:
    assert choose(name) == VoiceChoice(voice_id=voice, name=voice)
    assert choose(name, default="narrator").voice_id == (voice or "joe")
    assert choose(name, own=()) == VoiceChoice()


def test_what_is_called_like_a_name_of_openai_is_that() -> None:
    assert choose("nova", own=("af_nova", "nova")) == VoiceChoice("nova", name="nova")
    recording = {"alloy": Recording(ANNA)}
    assert choose("alloy", library=recording).voice_ref == ANNA
    preset = {"alloy": VoicePreset(voice_id="bob")}
    assert choose("alloy", library=recording, presets=preset).voice_id == "bob"


def test_what_speaks_is_named() -> None:
    presets = {"mine": VoicePreset(voice_ref=OWN), "slow": VoicePreset(options={"speed": "0.5"})}
    assert choose("mine", presets=presets).name == "mine"
    assert choose("mine", presets=presets, sends_reference=True).name == ""
    assert choose("slow", presets=presets).name == ""
    assert choose("", default=VoicePreset(voice_ref=OWN)).name == "default"


def test_names_are_listed_once_in_byte_order() -> None:
    assert voice_names(["joe", "zoe"], {"joe": 1, "Émile": 2}, iter(["Zed"])) == ["Zed", "joe", "zoe", "Émile"]


def test_library_holds_the_recordings_that_can_be_asked_for(tmp_path: Path) -> None:
    for name in ("anna.wav", "Jörg.wav", ".hidden.wav", "line\nbreak.wav", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "prompt_text").write_text("anna |Hello.\n", encoding="utf-8")
    assert read_library(tmp_path) == {
        "anna": Recording(tmp_path / "anna.wav", "Hello."),
        "Jörg": Recording(tmp_path / "Jörg.wav"),
    }


def test_transcripts_keep_all_after_the_first_bar_and_the_first_of_a_name() -> None:
    text = "a|one | two\r\nno bar\nb \t| three\na|later\n"
    assert parse_transcripts(text) == {"a": "one | two", "b": " three"}
