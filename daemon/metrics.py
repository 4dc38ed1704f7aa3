"""What is counted, for `GET /metrics`. Each figure has one place in the daemon that counts it.

Labels come from the configuration and the code only (entries, routes, codes), never from what a client sends, so that
no client can make the daemon keep a series.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.registry import Collector

from audiocpp.daemon.lifecycle import Leaving

# Otherwise there is a second series beside each counter, with the time of its first count.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

UNMATCHED = "unmatched"
"""The route of a request that no route answers."""

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "WEBSOCKET"})

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_FIRST_OUTPUT_SECONDS = (0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30)
_REAL_TIME_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 5)


class Metrics:
    """Counts. `watch` adds what is read at the time of a scrape instead."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "audiocpp_http_requests",
            "Requests answered. Status 499: the client left before the end of the reply.",
            ("route", "method", "status"),
            registry=registry,
        )
        self._duration = Histogram(
            "audiocpp_http_request_duration_seconds",
            "Time from a request's head to the end of its reply. Live sessions are not in it.",
            ("route", "model"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._errors = Counter(
            "audiocpp_request_errors", "Requests refused or failed, by error code.", ("code",), registry=registry
        )
        self._first_output = Histogram(
            "audiocpp_first_output_seconds",
            "Time from the request for a slot to the first text or audio. Live sessions are not in it.",
            ("model",),
            buckets=_FIRST_OUTPUT_SECONDS,
            registry=registry,
        )
        self._real_time_factor = Histogram(
            "audiocpp_real_time_factor",
            "Time of a run in parts of the recording it heard or the speech it made. Live sessions are not in it.",
            ("model",),
            buckets=_REAL_TIME_FACTORS,
            registry=registry,
        )
        self._sessions = Gauge("audiocpp_live_sessions", "Live sessions that are open.", ("model",), registry=registry)
        self._loads = Counter("audiocpp_model_loads", "Models loaded.", ("model",), registry=registry)
        self._load_failures = Counter(
            "audiocpp_model_load_failures", "Loads that failed, by error code.", ("model", "code"), registry=registry
        )
        self._unloads = Counter(
            "audiocpp_model_unloads",
            "Models unloaded: idle for long enough, for room, under memory pressure of the machine, or because asked.",
            ("model", "reason"),
            registry=registry,
        )
        self._deaths = Counter(
            "audiocpp_worker_deaths",
            "Worker processes that ended without having been asked; the next use starts another.",
            ("model",),
            registry=registry,
        )

    def served(self, *, route: str, method: str, status: int, model: str, seconds: float) -> None:
        """A reply is complete, or its client has left. `route` is a rule of the app, or `UNMATCHED`."""
        method = method if method in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        if method != "WEBSOCKET":
            self._duration.labels(route, model).observe(seconds)

    def refused(self, code: str) -> None:
        """A client was told of an error."""
        self._errors.labels(code).inc()

    def ran(self, model: str, *, first_output_s: float | None, real_time_factor: float | None) -> None:
        """A run that is no live session has answered. None: it had no output, or neither heard nor made audio."""
        if first_output_s is not None:
            self._first_output.labels(model).observe(first_output_s)
        if real_time_factor is not None:
            self._real_time_factor.labels(model).observe(real_time_factor)

    @contextmanager
    def session(self, model: str) -> Iterator[None]:
        """A live session is open as long as the block runs."""
        with self._sessions.labels(model).track_inprogress():
            yield

    def loaded(self, model: str) -> None:
        self._loads.labels(model).inc()

    def load_failed(self, model: str, code: str) -> None:
        self._load_failures.labels(model, code).inc()

    def unloaded(self, model: str, reason: Leaving) -> None:
        self._unloads.labels(model, reason.value).inc()

    def worker_died(self, model: str) -> None:
        self._deaths.labels(model).inc()

    def watch(self, state: Collector) -> None:
        """Asks `state` for its figures at each scrape."""
        self._registry.register(state)

    def exposition(self) -> bytes:
        """All figures in Prometheus' text format, `CONTENT_TYPE`."""
        return prometheus_client.generate_latest(self._registry)
