"""Which entries share a model: entries with the same load key do. Entries come and go while the daemon runs."""

import logging
from collections.abc import Sequence

from audiocpp.daemon.lifecycle import Model
from audiocpp.daemon.loading import Loader
from audiocpp.daemon.registry import ModelEntry, Registry
from audiocpp.daemon.slots import Slots
from audiocpp.daemon.supervisor import Supervisor

log = logging.getLogger(__name__)


class SharedModels:
    """Keeps the supervisor's models those that the entries use: all that are registered, and those that were replaced
    but have requests to finish."""

    def __init__(self, registry: Registry, slots: Slots, supervisor: Supervisor, loader: Loader) -> None:
        self._registry = registry
        self._slots = slots
        self._supervisor = supervisor
        self._loader = loader
        self._replaced_in_use = False

    def requests_ended(self) -> None:
        """Call it when an entry has no request any more."""
        if self._replaced_in_use:
            self.update()

    def update(self) -> None:
        """Call it when the registry has changed, or before a replaced entry is used again.

        Models that no entry uses leave memory and are forgotten.
        """
        sharing: dict[str, list[ModelEntry]] = {}
        for entry in self._entries():
            sharing.setdefault(entry.load_key, []).append(entry)
        for entries in sharing.values():
            self._loader.know(entries[0])
            self._supervisor.adopt(model_of(entries), worker_name=entries[0].worker_name)
        for load_key in self._supervisor.planner.models.keys() - sharing.keys():
            self._supervisor.retire(load_key)
        for load_key in self._supervisor.forget_retired():
            self._loader.forget(load_key)

    def _entries(self) -> list[ModelEntry]:
        replaced = [entry for entry in self._slots.in_use() if not self._registry.has(entry)]
        self._replaced_in_use = bool(replaced)
        return [*self._registry.entries.values(), *replaced]


def model_of(entries: Sequence[ModelEntry]) -> Model:
    """One model of the entries that share it: it is kept as long as any of them wants it."""
    keep_alives = [entry.keep_alive_ms for entry in entries]
    return Model(
        name=entries[0].load_key,
        label=entries[0].id,
        pull_command=f"audiocppctl pull {entries[0].package.id}",
        pinned=any(entry.pin for entry in entries),
        keep_alive_s=None if -1 in keep_alives else max(keep_alives) / 1e3,
        limit_bytes=max(entry.memory_limit_mb for entry in entries) << 20,
    )
