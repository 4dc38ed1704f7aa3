"""The keys of `server.json`: names, types, defaults, bounds and meaning. The tables of `docs/config.md` come from here.

Only declarations; paths are absolute by the time a struct exists.
"""

from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

MAX_MS = 2**31 - 1
MAX_JSON_INTEGER = 2**53 - 1

Mode = Literal["offline", "streaming"]
Backend = Literal["auto", "cpu", "cuda", "hip", "rocm", "vulkan", "metal"]
Fallback = Literal["", "cpu"]
WORDS = {"mode": get_args(Mode), "backend": get_args(Backend), "fallback": get_args(Fallback)}
"""The accepted words of the keys that take one of a few."""

Count = Annotated[int, Meta(ge=0)]
Milliseconds = Annotated[int, Meta(ge=0, le=MAX_MS)]
ChunkBytes = Annotated[int, Meta(ge=1, le=MAX_JSON_INTEGER)]
Bytes = Annotated[int, Meta(ge=0, le=MAX_JSON_INTEGER)]
Name = Annotated[str, Meta(min_length=1, max_length=128)]
Options = dict[str, str]


class LiveIngest(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one live upload. 0 disables a limit, except `max_chunk_bytes`."""

    idle_timeout_ms: Annotated[Milliseconds, Meta(description="Longest pause between two pieces of audio.")] = 30_000
    total_timeout_ms: Annotated[Milliseconds, Meta(description="Longest time from the first to the last piece.")] = (
        600_000
    )
    max_body_bytes: Annotated[Bytes, Meta(description="Largest upload, framing included.")] = 512 * 2**20
    max_chunk_bytes: Annotated[ChunkBytes, Meta(description="Largest single chunk or frame; cannot be disabled.")] = (
        8 * 2**20
    )
    send_timeout_ms: Annotated[
        Milliseconds, Meta(description="A client that does not read for so long is dropped.")
    ] = 30_000


class LiveIngestOverride(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that one model sets for itself; the others are the server's."""

    idle_timeout_ms: Milliseconds | UnsetType = UNSET
    total_timeout_ms: Milliseconds | UnsetType = UNSET
    max_body_bytes: Bytes | UnsetType = UNSET
    max_chunk_bytes: ChunkBytes | UnsetType = UNSET
    send_timeout_ms: Milliseconds | UnsetType = UNSET

    def over(self, server: LiveIngest) -> LiveIngest:
        """The server's limits with this model's in their place."""
        return msgspec.structs.replace(
            server, **{k: v for k, v in msgspec.structs.asdict(self).items() if v is not UNSET}
        )


class VoicePreset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named voice of the configuration. At least one key is set."""

    voice_id: Annotated[str, Meta(description="A voice name of the model.")] = ""
    voice_ref: Annotated[Path | None, Meta(description="A recording to clone from.")] = None
    reference_text: Annotated[str, Meta(description="What is said in `voice_ref`.")] = ""
    options: Annotated[Options, Meta(description="Request options; those of the request win, key by key.")] = {}


class ApiKeyFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with one key a line, so that keys stay out of the configuration."""

    file: Path


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `models`."""

    id: Annotated[Name, Meta(description="The name that requests use. Unique.")]
    family: Annotated[Name, Meta(description="The model family; `audiocppctl packages` lists them.")]
    path: Annotated[Path | None, Meta(description="A folder with the package's files; absent: the models root.")] = None
    package_id: Annotated[Name | None, Meta(description="The package of the family; absent: its default package.")] = (
        None
    )
    task: Annotated[
        str | None, Meta(description="What the entry does (`asr`, `tts`, `vad`, …); absent: the family's default task.")
    ] = None
    mode: Annotated[Mode, Meta(description="`streaming` entries also serve live sessions.")] = "offline"
    aliases: Annotated[
        tuple[Name, ...], Meta(description="Further names that the entry answers to, such as `whisper-1`.")
    ] = ()
    lazy: Annotated[bool | None, Meta(description="Load on first use; absent: `lazy_load`.")] = None
    pin: Annotated[bool, Meta(description="Never evict or unload this model by itself.")] = False
    keep_alive_ms: Annotated[
        Annotated[int, Meta(ge=-1, le=MAX_MS)] | None,
        Meta(description="Unload so long after the last use; -1 never, 0 at once; absent: `idle_unload_ms`."),
    ] = None
    slots: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Requests served together: 1..16, streaming entries 1..64; absent: the family's default."),
    ] = None
    worker: Annotated[Name | None, Meta(description="Entries with the same name share one worker process.")] = None
    device: Annotated[Count | None, Meta(description="Device index of the backend; absent: the server's.")] = None
    fallback: Annotated[Fallback | None, Meta(description="Absent: the server's.")] = None
    memory_limit_mb: Annotated[Count, Meta(description="Most memory the model may hold, in MiB; 0: no limit.")] = 0
    busy_timeout_ms: Annotated[
        Milliseconds | None,
        Meta(
            description="Longest wait for a free slot, and the most that a request may ask for; 0: no bound; absent: "
            "the server's."
        ),
    ] = None
    request_timeout_ms: Annotated[Milliseconds | None, Meta(description="Absent: the server's.")] = None
    max_audio_seconds: Annotated[Annotated[float, Meta(gt=0)] | None, Meta(description="Absent: the server's.")] = None
    live_ingest: Annotated[
        LiveIngestOverride | None, Meta(description="Limits of live uploads that differ from the server's.")
    ] = None
    resume_ms: Annotated[Milliseconds | None, Meta(description="Absent: the server's.")] = None
    load_options: Annotated[Options, Meta(description="Options of loading, `family.option`.")] = {}
    session_options: Annotated[Options, Meta(description="Options of the session, `family.option`.")] = {}
    default_request_options: Annotated[
        Options, Meta(description="Request options; those of the request win, key by key.")
    ] = {}
    instruct: Annotated[str | None, Meta(description="Short for `default_request_options.instruct`.")] = None
    voice_presets: Annotated[dict[str, VoicePreset], Meta(description="Named voices.")] = {}
    default_voice_preset: Annotated[
        str | VoicePreset | None,
        Meta(description="The voice of requests that name none: a preset's name, or a preset."),
    ] = None
    model_spec_override: Annotated[
        Path | None, Meta(description="A model contract, or a folder of them, that replaces the built-in one.")
    ] = None
    config: Annotated[str | None, Meta(description="Of the reference: packages name their files.")] = None
    weight: Annotated[str | None, Meta(description="Of the reference: packages name their files.")] = None


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    host: Annotated[str, Meta(description="Address to listen on: a literal IP address.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="TCP port; 0 takes a free one.")] = 8080
    admin_socket: Annotated[
        Path | None,
        Meta(
            description="Unix socket of `audiocppctl`; absent: `admin.sock` in the unit's runtime folder, in "
            "`$XDG_RUNTIME_DIR/audiocpp`, or in `/run/audiocpp`."
        ),
    ] = None
    models_root: Annotated[
        Path | None,
        Meta(
            description="Folder of installed packages; absent: `AUDIOCPP_MODELS_ROOT`, the state folder of systemd, "
            "the user's data folder."
        ),
    ] = None
    models: Annotated[tuple[ModelConfig, ...], Meta(description="The entries, in order.")] = ()

    backend: Annotated[Backend, Meta(description="Where models run; `auto`: the best that is here.")] = "auto"
    device: Annotated[Count, Meta(description="Device index of the backend.")] = 0
    fallback: Annotated[
        Fallback, Meta(description="Where a model goes that the backend cannot run: nowhere, or `cpu`.")
    ] = ""
    threads: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Compute threads of one graph run; absent: what suits the family and the machine."),
    ] = None
    model_spec_override: Annotated[
        Path | None, Meta(description="A model contract, or a folder of them, that replaces the built-in ones.")
    ] = None
    default_session_options: Annotated[
        Options, Meta(description="Session options, `family.option`, of every entry of the family.")
    ] = {}

    lazy_load: Annotated[bool, Meta(description="Load models on first use, not at start.")] = False
    max_loaded_models: Annotated[Count, Meta(description="Most models in memory; 0: no limit.")] = 0
    idle_unload_ms: Annotated[Milliseconds, Meta(description="Default of `keep_alive_ms`; 0: never unload.")] = 0
    min_free_memory_mb: Annotated[Count, Meta(description="MiB to leave free when loading; 0: no guard.")] = 0
    max_resident_memory_mb: Annotated[Count, Meta(description="Most MiB of all models together; 0: no limit.")] = 0

    busy_timeout_ms: Annotated[Milliseconds, Meta(description="Longest wait for a free slot; 0: no bound.")] = 300_000
    request_timeout_ms: Annotated[Milliseconds, Meta(description="Longest run of a request; 0: no bound.")] = 0
    max_connections: Annotated[int, Meta(ge=1, description="Most open connections.")] = 512
    max_request_body_bytes: Annotated[Bytes, Meta(description="Largest request body; 0 refuses every body.")] = 2**31
    max_spool_bytes: Annotated[
        Bytes, Meta(description="Most disk space of all uploads and long replies in progress together.")
    ] = 4 * 2**30
    max_audio_seconds: Annotated[float, Meta(gt=0, description="Longest recording of one request.")] = 14_400
    live_ingest: Annotated[LiveIngest, Meta(description="Limits of live uploads.")] = LiveIngest()
    resume_ms: Annotated[Milliseconds, Meta(description="How long a broken live session can be resumed; 0: off.")] = (
        30_000
    )

    cors_origins: Annotated[
        str | tuple[str, ...],
        Meta(description='Web origins that may use the API besides the server\'s own: `"*"` or a list.'),
    ] = ""
    api_keys: Annotated[
        tuple[Name, ...] | ApiKeyFile,
        Meta(description="Bearer keys, or a file with one a line; empty: no authentication."),
    ] = ()
    audio_roots: Annotated[
        tuple[Path, ...],
        Meta(
            description="Folders below which audio paths of requests may lie; empty: anywhere for a loopback listener, "
            "nowhere for others."
        ),
    ] = ()
    voice_dir: Annotated[
        Path | None,
        Meta(description="Folder of reference recordings, `NAME.wav`, with their transcripts in `prompt_text`."),
    ] = None

    ui: Annotated[bool, Meta(description="Serve the web page.")] = True
    ui_management: Annotated[bool, Meta(description="Let HTTP clients register, load and unload models.")] = False
    log_request_body: Annotated[
        bool, Meta(description="Log the bodies of requests, without audio; needs `--log` or `--log-file`.")
    ] = False
    frontend_listener: Annotated[
        str, Meta(description="How the API is served: `https`, `websocket` (requests in messages, too) or plainly.")
    ] = ""
    frontend_options: Annotated[Options, Meta(description="Options of `frontend_listener`.")] = {}
    resample_kernel_cache_mb: Annotated[
        Count, Meta(description="Of the reference: the resampler here keeps no kernels.")
    ] = 32


INERT: dict[type[msgspec.Struct], frozenset[str]] = {
    ServerConfig: frozenset(
        {
            "fallback",
            "resample_kernel_cache_mb",
            "ui_management",
        }
    ),
    ModelConfig: frozenset({"config", "fallback", "weight"}),
}
"""Keys that are read and checked but change nothing in this version. Setting one is logged."""
