"""GET /metrics: what the daemon has counted, and how it is now, for Prometheus."""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from quart import Blueprint, Response

from audiocpp.daemon.backend import Backend, backend
from audiocpp.daemon.http.reply import bytes_reply

metrics = Blueprint("metrics", __name__)


@metrics.get("/metrics")
async def get_metrics() -> Response:
    """Counts and present figures for Prometheus."""
    return bytes_reply(backend().services.metrics.exposition(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


class PresentState(Collector):
    """What is read when somebody asks, instead of being counted as it happens."""

    def __init__(self, daemon: Backend) -> None:
        self._daemon = daemon

    def collect(self) -> Iterator[Metric]:
        yield from self._entries()
        services = self._daemon.services
        spool = self._daemon.spool.used_bytes
        yield GaugeMetricFamily("audiocpp_spool_bytes", "Disk space of the uploads in progress.", value=spool)
        build = GaugeMetricFamily("audiocpp_build_info", "Always 1.", labels=("version", "commit"))
        build.add_metric((services.version, services.commit), 1)
        yield build

    def _entries(self) -> Iterator[Metric]:
        slots = _by_model("audiocpp_slots", "Requests that the entry serves together.")
        active = _by_model("audiocpp_active_slots", "Requests being served.")
        queued = _by_model("audiocpp_queued_requests", "Requests waiting for a slot.")
        resident = _by_model(
            "audiocpp_model_resident_bytes",
            "Private memory of a model in memory, measured now. Entries that share a model have one row.",
        )
        registry, seen = self._daemon.services.registry, set()
        for status in self._daemon.services.residency.snapshot():
            slots.add_metric((status.id,), status.slots)
            active.add_metric((status.id,), status.active_slots)
            queued.add_metric((status.id,), status.queued_requests)
            load_key = registry.entries[status.id].load_key
            if status.resident_bytes is not None and load_key not in seen:
                seen.add(load_key)
                resident.add_metric((status.id,), status.resident_bytes)
        yield from (slots, active, queued, resident)


def _by_model(name: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=("model",))
