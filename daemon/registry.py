"""The registered model entries, and how a request names one. What is installed or in memory is known elsewhere."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from audiocpp.daemon.config import LiveIngest, VoicePreset
from audiocpp.daemon.errors import Conflict, InvalidRequest, ModelNotFound
from audiocpp.engines.spec import ModelSpec, PackageSpec
from audiocpp.engines.tasks import Mode, OptionValue, TaskName

MAX_ENTRIES = 1024
"""Each costs some memory, and a row in every list, for as long as the daemon runs."""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """A registered model with everything inherited filled in. Entries are told apart by identity: one that replaces
    another is another one, and requests keep the one that they came for.

    Attributes:
        slots: requests served together; `max_slots` is the most that the family allows in this mode.
        files_dir: folder of the package's files; None: the package's folder in the models root.
        load_options, session_options: texts by public key (`family.option`), as clients see them.
        options: the same two, typed, by local name: what the family loads with.
        default_request_options: typed, by name.
        busy_timeout_ms: ceiling of a request's wait; 0 means none.
        request_timeout_ms: longest run; 0 means none.
        keep_alive_ms: from the last release to the unload; -1 never, 0 at once.
        memory_limit_mb: 0 means none.
        recordings: what the `voice_ref`s of its presets held when the entry was registered.
        load_key: equal for entries that share one loaded model; also says which model it is, for logs.
        worker_name: equal for entries that share one worker process.
    """

    id: str
    aliases: tuple[str, ...]
    family: str
    task: TaskName
    mode: Mode
    spec: ModelSpec
    package: PackageSpec
    files_dir: Path | None
    backend: str
    device: int
    fallback: str
    slots: int
    max_slots: int
    lazy: bool
    pin: bool
    keep_alive_ms: int
    memory_limit_mb: int
    busy_timeout_ms: int
    request_timeout_ms: int
    max_audio_s: float
    live_ingest: LiveIngest
    resume_ms: int
    load_options: Mapping[str, str]
    session_options: Mapping[str, str]
    options: Mapping[str, OptionValue]
    default_request_options: Mapping[str, OptionValue]
    voice_presets: Mapping[str, VoicePreset]
    default_voice_preset: str | VoicePreset | None
    recordings: Mapping[Path, bytes]
    load_key: str
    worker_name: str


class Registry:
    """Entries by id, in the order in which they were registered."""

    def __init__(self, entries: Iterable[ModelEntry]) -> None:
        self._set({entry.id: entry for entry in entries})

    def _set(self, entries: Mapping[str, ModelEntry]) -> None:
        self.entries = entries
        self._names = {name: entry for entry in entries.values() for name in (entry.id, *entry.aliases)}

    def put(self, entry: ModelEntry) -> None:
        """Registers an entry, in the place of the one with its id if there is one.

        Raises `Conflict` for a name that another entry has, and beyond `MAX_ENTRIES`.
        """
        for name in (entry.id, *entry.aliases):
            other = self._names.get(name)
            if other is not None and other.id != entry.id:
                raise Conflict(f"id: {name!r} is already a name of {other.id!r}", param="id")
        if entry.id not in self.entries and len(self.entries) >= MAX_ENTRIES:
            raise Conflict(f"id: {len(self.entries)} models are registered, the most that are allowed", param="id")
        self._set({**self.entries, entry.id: entry})

    def has(self, entry: ModelEntry) -> bool:
        """Whether the entry is registered, and has not been replaced."""
        return self.entries.get(entry.id) is entry

    def get(self, name: str) -> ModelEntry | None:
        """The entry with this id or alias."""
        return self._names.get(name)

    def find(self, name: str) -> ModelEntry:
        """The entry with this id or alias. Raises `ModelNotFound` that lists the ids."""
        if name not in self._names:
            raise ModelNotFound(f"unknown model id: {name!r}; configured: {_listed(self.entries)}", param="model")
        return self._names[name]

    def resolve(self, name: str | None, *, task: TaskName | None, mode: Mode | None) -> ModelEntry:
        """The entry for a request to a route of `task`; without a name the only one that the route can use. None: the
        route runs any task.

        A streaming route needs a streaming entry. An offline route takes either when it is named, and prefers
        offline entries when it is not. Raises `ModelNotFound`, or `InvalidRequest` that lists what would do.
        """
        usable = [
            entry
            for entry in self.entries.values()
            if task in (None, entry.task) and mode in (None, "offline", entry.mode)
        ]
        accepted = _listed(entry.id for entry in usable)
        does = task or "a task"
        route = f"{mode} {does}" if mode == "streaming" else does
        if name:
            entry = self.find(name)
            if entry not in usable:
                raise InvalidRequest(
                    f"model {name!r} is an entry for {entry.mode} {entry.task}, not for {route}; accepted: {accepted}",
                    param="model",
                )
            return entry
        if mode == "offline":
            usable = [entry for entry in usable if entry.mode == "offline"] or usable
        if not usable:
            raise InvalidRequest(f"no entry does {route}", param="model")
        if len(usable) != 1:
            raise InvalidRequest(f"model is required: {len(usable)} entries do {route}: {accepted}", param="model")
        return usable[0]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
