"""What the admin socket can do: `control`'s backend, implemented on the daemon's services."""

from collections.abc import Sequence

import trio
import trio.lowlevel

from audiocpp.control.backend import ReportPull
from audiocpp.control.protocol import (
    ExplainReply,
    LoadReply,
    ModelRow,
    PackageRow,
    PsRow,
    PullProgress,
    PullReply,
    PullStarted,
    StatusReply,
    UnloadReply,
)
from audiocpp.daemon import packages
from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.explain import explain
from audiocpp.daemon.lifecycle import State
from audiocpp.daemon.residents import ModelStatus
from audiocpp.daemon.services import Services

_NOT_IN_MEMORY = (State.UNLOADED, State.NOT_INSTALLED)


class Admin:
    """Serves one daemon. `url` is the public API's base, None without a TCP listener; `nursery` outlives requests."""

    def __init__(self, services: Services, *, url: str | None, pid: int, nursery: trio.Nursery) -> None:
        self._services = services
        self._url = url
        self._pid = pid
        self._nursery = nursery

    async def status(self) -> StatusReply:
        services = self._services
        statuses = services.residency.snapshot()
        by_pid = {status.pid: status for status in statuses if status.pid is not None}
        return StatusReply(
            version=services.version,
            pid=self._pid,
            state="running",
            url=self._url,
            uptime_s=trio.current_time() - services.started_at,
            config_path=str(services.config_path) if services.config_path else None,
            models_root=str(services.store.models_root),
            backend=services.config.backend,
            models=len(statuses),
            resident=sum(status.state in (State.READY, State.BUSY) for status in statuses),
            resident_bytes=sum(status.resident_bytes or 0 for status in by_pid.values()),
            active_requests=sum(status.active_slots for status in statuses),
            queued_requests=sum(status.queued_requests for status in statuses),
        )

    async def models(self) -> list[ModelRow]:
        return [self._model_row(status) for status in self._services.residency.snapshot()]

    def _model_row(self, status: ModelStatus) -> ModelRow:
        entry = self._services.registry.entries[status.id]
        return ModelRow(
            id=entry.id,
            family=entry.family,
            task=entry.task,
            mode=entry.mode,
            state=status.state.value,
            package=entry.package.id,
            aliases=list(entry.aliases),
            reason=status.reason,
        )

    async def ps(self) -> list[PsRow]:
        return [_ps_row(status) for status in self._services.residency.snapshot() if status.state not in _NOT_IN_MEMORY]

    async def load(self, model_id: str, *, wait: bool, timeout_s: float) -> LoadReply:
        residency = self._services.residency
        if not wait:
            before = residency.status_of(model_id)
            self._nursery.start_soon(self._load_unwatched, model_id)
            await trio.lowlevel.checkpoint()
            return _load_reply(residency.status_of(model_id), changed=before.state in _NOT_IN_MEMORY, seconds=None)
        report = await residency.load(model_id, timeout_s=timeout_s)
        return _load_reply(residency.status_of(model_id), changed=report.changed, seconds=report.seconds)

    async def explain(self, model_id: str) -> ExplainReply:
        return explain(self._services, self._services.registry.find(model_id))

    async def unload(self, model_ids: Sequence[str] | None, *, force: bool, timeout_s: float) -> UnloadReply:
        ids = list(self._services.registry.entries) if model_ids is None else model_ids
        report = await self._services.residency.unload(ids, force=force, timeout_s=timeout_s)
        return UnloadReply(
            changed=bool(report.unloaded),
            unloaded=report.unloaded,
            not_resident=report.not_resident,
            released_bytes=report.released_bytes,
        )

    async def packages(self) -> list[PackageRow]:
        return [
            PackageRow(
                id=status.id,
                family=status.family,
                installed=status.installed,
                license=status.license,
                size_bytes=status.size_bytes,
                path=status.directory if status.installed else None,
            )
            for status in self._services.store.list()
        ]

    async def pull(self, package_id: str, report: ReportPull) -> PullReply:
        announced: set[str] = set()

        def listen(progress: packages.PullProgress) -> None:
            if progress.package not in announced:
                announced.add(progress.package)
                report(
                    PullStarted(
                        event="package",
                        package=progress.package,
                        license=progress.license,
                        size_bytes=progress.total_bytes,
                    )
                )
            report(
                PullProgress(
                    event="progress",
                    package=progress.package,
                    file=progress.file,
                    done_bytes=progress.done_bytes,
                    total_bytes=progress.total_bytes or None,
                )
            )

        started = trio.current_time()
        result = await self._services.store.pull(package_id, listen)
        return PullReply(
            event="done",
            package=result.package,
            changed=bool(result.pulled),
            path=result.directory,
            seconds=trio.current_time() - started,
        )

    async def _load_unwatched(self, model_id: str) -> None:
        """A load that nobody waits for: what goes wrong is logged by the supervisor and shown by `ps`."""
        try:
            await self._services.residency.load(model_id)
        except DaemonError:
            return


def _load_reply(status: ModelStatus, *, changed: bool, seconds: float | None) -> LoadReply:
    return LoadReply(
        id=status.id,
        changed=changed,
        state=status.state.value,
        seconds=seconds,
        resident_bytes=status.resident_bytes,
        placement=status.placement,
    )


def _ps_row(status: ModelStatus) -> PsRow:
    return PsRow(
        id=status.id,
        state=status.state.value,
        pid=status.pid,
        placement=status.placement,
        slots=status.slots,
        active_slots=status.active_slots,
        reserved_slots=status.reserved_slots,
        queued_requests=status.queued_requests,
        resident_bytes=status.resident_bytes,
        peak_bytes=status.peak_bytes,
        limit_bytes=status.limit_bytes,
        idle_s=status.idle_s,
        longest_run_s=status.longest_run_s,
        overdue=status.overdue,
        reason=status.reason,
        retry_after_s=status.retry_after_s,
    )
