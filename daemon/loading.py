"""How models are loaded and what they are thought to need: the questions of the supervisor and its ledger, which know
models by load key, answered from the entries that use them."""

import hashlib
from pathlib import Path

from audiocpp.daemon.config import ServerConfig
from audiocpp.daemon.errors import ModelFailed, ModelNotInstalled
from audiocpp.daemon.estimates import Estimates, Measurement, estimate_by_rule
from audiocpp.daemon.packages import PackageStore
from audiocpp.daemon.registry import ModelEntry
from audiocpp.engines import wire
from audiocpp.engines.host import HostFacts
from audiocpp.engines.placement import Placement, PlacementChoice, choose_placement


class Loader:
    """Answers for the models whose entries it was told of by `know`."""

    def __init__(
        self, config: ServerConfig, host: HostFacts, store: PackageStore, estimates: Estimates, *, graphs_dir: Path
    ) -> None:
        self._config = config
        self._host = host
        self._store = store
        self._estimates = estimates
        self._graphs_dir = graphs_dir
        self._entries: dict[str, ModelEntry] = {}

    def know(self, entry: ModelEntry) -> None:
        """The entry's model may be asked for from now on."""
        self._entries[entry.load_key] = entry

    def forget(self, load_key: str) -> None:
        """The model will not be asked for again, unless `know` is called for it."""
        self._entries.pop(load_key, None)

    def command(self, load_key: str) -> wire.LoadModel:
        """Raises `ModelNotInstalled`, or `ModelFailed` when no placement is possible."""
        entry, store = self._entries[load_key], self._store
        placement = self._placement(entry)
        if store.missing_of(entry.spec, entry.package, folder=entry.files_dir):
            raise not_installed(entry, store)
        files = store.files(entry.spec, entry.package, backend=placement.backend, folder=entry.files_dir)
        return wire.LoadModel(
            model=entry.load_key,
            family=entry.family,
            files={role: str(path) for role, path in files.items()},
            runtime=placement.runtime,
            providers=[(name, dict(options)) for name, options in placement.providers],
            threads=placement.threads,
            options=dict(entry.options),
            cache_dir=str(self._graphs_dir),
        )

    def estimate(self, load_key: str) -> Measurement:
        """What was measured here the last time, else what the files' sizes suggest."""
        entry = self._entries[load_key]
        if (learned := self._estimates.learned(_estimate_key(entry))) is not None:
            return learned
        try:
            files = self._store.files(entry.spec, entry.package, folder=entry.files_dir)
        except ModelNotInstalled:
            return Measurement(loaded_bytes=0)
        return Measurement(loaded_bytes=estimate_by_rule(files.values()))

    def learn(self, load_key: str, measured: Measurement) -> None:
        self._estimates.learn(_estimate_key(self._entries[load_key]), measured)

    def is_learned(self, entry: ModelEntry) -> bool:
        """Whether the entry's memory has been measured here, with these files and options."""
        return self._estimates.learned(_estimate_key(entry)) is not None

    def placements(self, entry: ModelEntry) -> PlacementChoice:
        """Where the entry can run here, best first, and why not elsewhere."""
        own = entry.options.get("threads")
        return choose_placement(
            entry.spec,
            entry.package,
            self._host,
            wanted=entry.backend,
            device=entry.device,
            threads=self._config.threads if own is None else int(own),
        )

    def _placement(self, entry: ModelEntry) -> Placement:
        choice = self.placements(entry)
        if not choice.placements:
            raise ModelFailed(f"model {entry.id!r} cannot be placed: {choice.explain()}")
        return choice.placements[0]


def not_installed(entry: ModelEntry, store: PackageStore) -> ModelNotInstalled:
    """The error that names what is missing and the command that installs it."""
    missing = ", ".join(store.missing_of(entry.spec, entry.package, folder=entry.files_dir))
    return ModelNotInstalled(
        f"model {entry.id!r} needs the package {missing}, which is not installed; "
        f"run: audiocppctl pull {entry.package.id}",
        param="model",
    )


def _estimate_key(entry: ModelEntry) -> str:
    """The load key says options and placement; the files' own digests say what is loaded."""
    files = hashlib.sha256("".join(file.sha256 for file in entry.package.files).encode()).hexdigest()
    return f"{entry.load_key}@{files[:12]}"
