"""Entries: what they inherit, what their spec refuses, and how a request finds one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from audiocpp.daemon.config import LiveIngest
from audiocpp.daemon.config.load import parse_config
from audiocpp.daemon.entries import build_registry
from audiocpp.daemon.errors import ConfigError, InvalidRequest, ModelNotFound
from audiocpp.daemon.registry import Registry
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.spec import (
    FileSource,
    License,
    ModelSpec,
    OfflineSlots,
    Options,
    OptionSpec,
    PackageFile,
    PackageSpec,
    Slots,
    StreamingSlots,
)


def package(package_id: str, *, default: bool = False) -> PackageSpec:
    file = PackageFile(
        name="model.ort", role="model", size_bytes=1, sha256="0" * 64, sources=(FileSource(path=package_id),)
    )
    return PackageSpec(
        id=package_id,
        display_name=package_id,
        default=default,
        format="ort",
        precision="int8",
        license=License(spdx="MIT"),
        target_directory=package_id,
        files=(file,),
    )


def spec(family: str, task: str, **fields: Any) -> ModelSpec:
    values: dict[str, Any] = {
        "schema_version": 1,
        "family": family,
        "display_name": family,
        "category": task,
        "status": "beta",
        "tasks": (task,),
        "modes": ("offline", "streaming"),
        "runtime": ("onnxruntime",),
        "packages": (package(f"{family}_small", default=True), package(f"{family}_large")),
    }
    return ModelSpec(**{**values, **fields})


def row(name: str, kind: Any, **fields: Any) -> OptionSpec:
    return OptionSpec(name=name, type=kind, description="Of a test.", **fields)


TOY_ASR = spec(
    "toy_asr",
    "asr",
    slots=Slots(offline=OfflineSlots(default=2, max=4), streaming=StreamingSlots(default=8, max=32)),
    options=Options(
        request=(row("beams", "int", min=1, max=8),),
        session=(row("threads", "int", min=1), row("fast", "bool")),
        load=(row("scale", "float"),),
    ),
)
TOY_TTS = spec("toy_tts", "tts", modes=("offline",), options=Options(request=(row("speed", "float", required=True),)))
CATALOG = Catalog.of([TOY_ASR, TOY_TTS])


def registry(*models: Mapping[str, Any], **keys: Any) -> Registry:
    return build_registry(
        parse_config({**keys, "models": [dict(model) for model in models]}, folder=Path("/conf")), CATALOG
    )


def asr(model_id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"id": model_id, "family": "toy_asr", **fields}


def refused(*models: Mapping[str, Any], **keys: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        registry(*models, **keys)
    return str(caught.value)


def test_entries_keep_the_order_of_the_configuration() -> None:
    assert list(registry(asr("z"), asr("a"), asr("m")).entries) == ["z", "a", "m"]


def test_absent_task_is_the_first_of_the_family_and_absent_package_its_default() -> None:
    entry = registry(asr()).find("a")
    assert (entry.task, entry.mode, entry.package.id) == ("asr", "offline", "toy_asr_small")


def test_named_package_of_the_family_is_taken() -> None:
    assert registry(asr(package_id="toy_asr_large")).find("a").package.id == "toy_asr_large"


def test_package_of_another_family_is_refused() -> None:
    message = refused(asr(package_id="toy_tts_small"))
    assert message == (
        "models[0].package_id: 'toy_tts_small' is not a package of toy_asr; accepted: toy_asr_small, toy_asr_large"
    )


def test_what_an_entry_does_not_say_is_the_servers() -> None:
    plain, own = registry(
        asr(),
        asr("b", busy_timeout_ms=0, keep_alive_ms=0, lazy=False, device=0, resume_ms=0, max_audio_seconds=5),
        busy_timeout_ms=7,
        idle_unload_ms=8,
        lazy_load=True,
        device=1,
        resume_ms=9,
        max_audio_seconds=10,
        live_ingest={"idle_timeout_ms": 11},
    ).entries.values()
    assert (plain.busy_timeout_ms, plain.keep_alive_ms, plain.lazy, plain.device) == (7, 8, True, 1)
    assert (plain.resume_ms, plain.max_audio_s, plain.live_ingest) == (9, 10, LiveIngest(idle_timeout_ms=11))
    assert (own.busy_timeout_ms, own.keep_alive_ms, own.lazy, own.device) == (0, 0, False, 0)
    assert (own.resume_ms, own.max_audio_s) == (0, 5)


def test_a_model_is_kept_for_ever_when_neither_server_nor_entry_says_otherwise() -> None:
    assert registry(asr()).find("a").keep_alive_ms == -1


def test_rocm_is_another_word_for_hip() -> None:
    assert registry(asr(), backend="rocm").find("a").backend == "hip"


@pytest.mark.parametrize(("mode", "default", "most"), [("offline", 2, 4), ("streaming", 8, 32)])
def test_slots_come_from_the_spec_by_mode(mode: str, default: int, most: int) -> None:
    entry = registry(asr(mode=mode)).find("a")
    assert (entry.slots, entry.max_slots) == (default, most)
    assert registry(asr(mode=mode, slots=most)).find("a").slots == most
    assert refused(asr(mode=mode, slots=most + 1)) == f"models[0].slots: expected 1..{most}, got {most + 1}"


def test_session_options_are_the_familys_defaults_under_the_entrys_own() -> None:
    defaults = {"toy_asr.threads": 2, "toy_asr.fast": True, "other.threads": 9}
    entry = registry(asr(session_options={"toy_asr.threads": 4}), default_session_options=defaults).find("a")
    assert entry.session_options == {"toy_asr.threads": "4", "toy_asr.fast": "true"}
    assert entry.options == {"threads": 4, "fast": True}


def test_load_options_are_typed_by_local_name() -> None:
    entry = registry(asr(load_options={"toy_asr.scale": 1})).find("a")
    assert entry.load_options == {"toy_asr.scale": "1"}
    assert entry.options == {"scale": 1.0}


def test_request_defaults_are_typed_and_may_leave_required_options_to_the_request() -> None:
    found = registry(
        asr(default_request_options={"beams": "3"}), {"id": "t", "family": "toy_tts", "default_request_options": {}}
    )
    assert found.find("a").default_request_options == {"beams": 3}
    assert found.find("t").default_request_options == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"session_options": {"threads": 1}},
            "models[0].session_options: unknown option 'threads'; accepted: toy_asr.fast, toy_asr.threads",
        ),
        (
            {"load_options": {"toy_asr.x": 1}},
            "models[0].load_options: unknown option 'toy_asr.x'; accepted: toy_asr.scale",
        ),
        (
            {"default_request_options": {"beams": 9}},
            "models[0].default_request_options: option 'beams': '9' is outside 1..8",
        ),
        (
            {"voice_presets": {"v": {"options": {"x": 1}}}},
            "models[0].voice_presets.v.options: unknown option 'x'; accepted: beams",
        ),
        (
            {"default_voice_preset": {"voice_ref": "own.wav"}},
            "models[0].default_voice_preset.voice_ref: toy_asr does not speak like a recording",
        ),
        ({"task": "tts"}, "models[0].task: 'tts' is not done by toy_asr; accepted: asr"),
        ({"family": "toy"}, "models[0].family: family 'toy' is not known; known: toy_asr, toy_tts"),
        ({"path": "gone"}, "models[0].path: expected an existing folder, got '/conf/gone'"),
    ],
)
def test_what_the_spec_does_not_offer_is_refused_with_what_it_does(fields: dict[str, Any], message: str) -> None:
    assert refused(asr(**fields)) == message


def test_mode_that_the_family_lacks_is_refused() -> None:
    message = refused({"id": "t", "family": "toy_tts", "mode": "streaming"})
    assert message == "models[0].mode: toy_tts cannot do 'streaming'; accepted: offline"


def test_weights_of_other_runtimes_are_refused_with_the_packages_that_exist_here() -> None:
    message = refused(asr(path="/models/whisper.GGUF"))
    assert message.startswith("models[0].path: GGUF files cannot be loaded here")
    assert "toy_asr_small (ort)" in message


def test_path_is_a_folder_with_the_packages_files(tmp_path: Path) -> None:
    assert registry(asr(path=str(tmp_path))).find("a").files_dir == tmp_path
    assert registry(asr()).find("a").files_dir is None


def test_contract_of_an_entry_replaces_the_catalogs(tmp_path: Path) -> None:
    file = tmp_path / "toy_asr.json"
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(TOY_ASR, modes=("streaming",))))
    entry = registry(asr(mode="streaming", model_spec_override=str(file))).find("a")
    assert entry.spec.modes == ("streaming",)


def test_missing_contract_of_an_entry_is_named(tmp_path: Path) -> None:
    message = refused(asr(model_spec_override=str(tmp_path / "none.json")))
    assert message.startswith("models[0].model_spec_override: ")


def test_entries_that_load_the_same_share_a_model_whatever_their_mode() -> None:
    found = registry(
        asr("a", load_options={"toy_asr.scale": 1}), asr("b", mode="streaming", load_options={"toy_asr.scale": "1.0"})
    )
    assert found.find("a").load_key == found.find("b").load_key
    assert found.find("a").worker_name == found.find("b").worker_name


@pytest.mark.parametrize(
    "difference",
    [{"package_id": "toy_asr_large"}, {"device": 1}, {"session_options": {"toy_asr.fast": True}}, {"fallback": "cpu"}],
)
def test_entries_that_load_differently_do_not_share_a_model(difference: dict[str, Any]) -> None:
    found = registry(asr("a"), asr("b", **difference))
    assert found.find("a").load_key != found.find("b").load_key


def test_named_worker_is_shared_by_different_models() -> None:
    found = registry(asr("a", worker="w"), {"id": "t", "family": "toy_tts", "worker": "w"})
    assert found.find("a").worker_name == found.find("t").worker_name == "w"
    assert found.find("a").load_key != found.find("t").load_key


FOUR = registry(asr("off"), asr("live", mode="streaming", aliases=["whisper-1"]), {"id": "say", "family": "toy_tts"})


def test_entry_is_found_by_id_and_by_alias() -> None:
    assert FOUR.find("off").id == "off"
    assert FOUR.find("whisper-1").id == "live"


def test_unknown_name_lists_the_ids() -> None:
    with pytest.raises(ModelNotFound, match=r"unknown model id: 'x'; configured: off, live, say") as caught:
        FOUR.resolve("x", task="asr", mode=None)
    assert caught.value.param == "model"


@pytest.mark.parametrize(
    ("name", "task", "mode", "found"),
    [
        (None, "tts", "offline", "say"),
        ("", "tts", "offline", "say"),
        (None, "asr", "offline", "off"),
        (None, "asr", "streaming", "live"),
        ("whisper-1", "asr", "streaming", "live"),
        ("live", "asr", "offline", "live"),
    ],
)
def test_request_finds_the_entry_it_means(name: str | None, task: Any, mode: Any, found: str) -> None:
    assert FOUR.resolve(name, task=task, mode=mode).id == found


@pytest.mark.parametrize(
    ("name", "task", "mode", "message"),
    [
        ("off", "asr", "streaming", "model 'off' is an entry for offline asr, not for streaming asr; accepted: live"),
        ("say", "asr", "offline", "model 'say' is an entry for offline tts, not for asr; accepted: off, live"),
        (None, "asr", None, "model is required: 2 entries do asr: off, live"),
        (None, "vad", "offline", "no entry does vad"),
    ],
)
def test_request_that_no_entry_or_several_could_serve_is_refused(
    name: str | None, task: Any, mode: Any, message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        FOUR.resolve(name, task=task, mode=mode)
    assert (caught.value.message, caught.value.param) == (message, "model")
