"""Says what loading an entry would mean: placement, memory, limits, evictions. Changes nothing."""

from audiocpp.control.protocol import ExplainReply, LimitRow, PlacementRow, RefusalRow, RoomNow
from audiocpp.daemon.eviction import Decision, Evict, Fits, Never, Wait
from audiocpp.daemon.lifecycle import State
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.services import Services


def explain(services: Services, entry: ModelEntry) -> ExplainReply:
    """The answer to `audiocppctl explain`."""
    status = services.residency.status_of(entry.id)
    decision, limits = services.supervisor.forecast(entry.load_key)
    choice = services.loader.placements(entry)
    resident = status.state in (State.READY, State.BUSY)
    return ExplainReply(
        id=entry.id,
        state=status.state.value,
        reason=status.reason,
        missing_packages=list(services.store.missing_of(entry.spec, entry.package, folder=entry.files_dir)),
        estimate_bytes=services.supervisor.row(entry.load_key).estimate_bytes,
        estimate_source="measured" if services.loader.is_learned(entry) else "rule",
        resident_bytes=status.resident_bytes,
        room="resident" if resident else _room(decision),
        evicts=_evicted(services, decision),
        binding_limit=decision.limit if isinstance(decision, Wait | Never) else None,
        limits=[LimitRow(name=limit.name, free_bytes=limit.free_bytes) for limit in limits],
        placements=[
            PlacementRow(
                backend=place.backend,
                device=place.device,
                runtime=place.runtime,
                providers=[name for name, _ in place.providers],
                threads=place.threads,
                reason=place.reason,
            )
            for place in choice.placements
        ],
        refusals=[RefusalRow(backend=refusal.backend, reason=refusal.reason) for refusal in choice.refusals],
    )


def _room(decision: Decision) -> RoomNow:
    match decision:
        case Fits():
            return "now"
        case Evict():
            return "after_eviction"
        case Wait():
            return "after_waiting"
        case Never():
            return "never"


def _evicted(services: Services, decision: Decision) -> list[str]:
    if not isinstance(decision, Evict):
        return []
    return [services.supervisor.planner.models[name].label for name in decision.victims]
