"""Live sessions side by side, at the pace of speech."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.bed import Bed
from bench.companion import Companion
from bench.daemon_process import Daemon
from bench.http_client import form_request
from bench.material import words_apart
from bench.report import Figure, Report
from bench.samples import median, percentile

_SECONDS = 46.0
"""More than the whole recording."""

_TARGET = "/v1/audio/transcriptions/live?model=moonshine-live"
_FINAL_LIMITS_MS = {1: 300, 8: 600, 16: 1000, 24: None}
"""Sessions -> longest time from the decision that speech has ended to its text, 95th percentile."""

_MIB = 1 << 20


def live(bed: Bed) -> Report:
    recording = bed.material.recordings["two_cities"]
    figures: list[Figure] = []
    with bed.folder.start() as daemon, Companion(Path(sys.executable), "bench.live_clients") as clients:
        clients.call("sessions", **_arguments(daemon, recording, 1, seconds=3.0))
        whole = form_request("/v1/audio/transcriptions", {"model": "moonshine"}, file=recording.read_bytes())
        from_file = daemon.http.expect_ok(whole).json()["text"]
        resident = daemon.tree.memory().private
        for count, limit_ms in _FINAL_LIMITS_MS.items():
            cpu_before_s = daemon.tree.cpu_s()
            seen = clients.call("sessions", **_arguments(daemon, recording, count, seconds=_SECONDS))
            cpu_s = daemon.tree.cpu_s() - cpu_before_s
            sessions = seen["sessions"]
            figures += _figures(count, limit_ms, sessions, seen["health_s"])
            figures.append(_same_words(count, sessions, from_file))
            grown = (daemon.tree.memory().private - resident) / _MIB / count
            figures.append(_cost(count, cpu_s / seen["wall_s"] / count, grown))
    return Report("live transcription of two_cities.wav (44 s), sessions side by side at the pace of speech", figures)


def _arguments(daemon: Daemon, recording: Path, count: int, *, seconds: float) -> dict[str, Any]:
    http = daemon.http
    return {
        "host": http.host,
        "port": http.port,
        "target": _TARGET,
        "path": str(recording),
        "count": count,
        "seconds": seconds,
    }


def _figures(count: int, limit_ms: int | None, sessions: list[dict[str, Any]], health_s: list[float]) -> list[Figure]:
    name = _named(count)
    finals = [after for session in sessions for after in _finals_s(session)]
    figures = [
        Figure(
            name=f"{name}: final text, p95",
            value=1e3 * percentile(finals, 95),
            unit="ms",
            limit=limit_ms,
            samples=len(finals),
            made_of=f"p50 {1e3 * median(finals):.0f} ms; from the decision that speech has ended, or from `end`",
        ),
        Figure(
            name=f"{name}: /health, p99",
            value=1e3 * percentile(health_s, 99),
            unit="ms",
            limit=100,
            samples=len(health_s),
        ),
    ]
    if count == 1:
        endings = list(_endings_s(sessions[0]))
        beginnings = list(_beginnings_s(sessions[0]))
        figures += [
            _percentile_50("last sample of speech to its text", endings, 800),
            _percentile_50("first word after speech began", beginnings, 900),
        ]
    else:
        early, late = (
            [after for session in sessions for after in part(list(_finals_s(session)))]
            for part in (lambda all_: all_[: len(all_) // 2], lambda all_: all_[len(all_) // 2 :])
        )
        figures.append(
            Figure(
                name=f"{name}: falling behind",
                value=median(late) / median(early),
                limit=1.5,
                samples=len(late),
                made_of=f"the second half's median, {1e3 * median(late):.0f} ms, over the first's",
            )
        )
    return figures


def _named(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"


def _percentile_50(name: str, times_s: list[float], limit_ms: float) -> Figure:
    return Figure(
        name=name, value=1e3 * median(times_s), unit="ms", limit=limit_ms, samples=len(times_s), made_of="one session"
    )


def _finals_s(session: dict[str, Any]) -> Iterator[float]:
    """From each `speech.stopped` to the segment that follows it, and from `end` to the last text."""
    stopped_s: float | None = None
    for event in session["events"]:
        match event["type"]:
            case "speech.stopped":
                stopped_s = event["arrived_s"]
            case "transcript.segment" if stopped_s is not None:
                yield event["arrived_s"] - stopped_s
                stopped_s = None
            case "transcript.text.done":
                yield event["arrived_s"] - session["ended_s"]


def _endings_s(session: dict[str, Any]) -> Iterator[float]:
    """From the last sample of each utterance, as its `speech.stopped` tells, to its segment. The end is automatic."""
    stopped_at_s: float | None = None
    for event in session["events"]:
        if event["type"] == "speech.stopped" and event["arrived_s"] < session["ended_s"]:
            stopped_at_s = event["at"]
        elif event["type"] == "transcript.segment" and stopped_at_s is not None:
            yield event["arrived_s"] - stopped_at_s
            stopped_at_s = None


def _beginnings_s(session: dict[str, Any]) -> Iterator[float]:
    """From the first sample of each utterance to its first word."""
    started_at_s: float | None = None
    for event in session["events"]:
        if event["type"] == "speech.started":
            started_at_s = event["at"]
        elif event["type"] == "transcript.text.delta" and started_at_s is not None:
            yield event["arrived_s"] - started_at_s
            started_at_s = None


def _text(session: dict[str, Any]) -> str:
    """The final text. Raises `RuntimeError` when there is none or its deltas are not it."""
    *events, last = session["events"]
    deltas = "".join(event["delta"] for event in events if event["type"] == "transcript.text.delta")
    if last["type"] != "transcript.text.done" or deltas != last["text"]:
        raise RuntimeError(f"a session ended with {last}")
    return str(last["text"])


def _same_words(count: int, sessions: list[dict[str, Any]], from_file: str) -> Figure:
    errors = [100 * words_apart(from_file, _text(session)) for session in sessions]
    return Figure(
        name=f"{_named(count)}: other words than the file",
        value=median(errors),
        unit="%",
        limit=5,
        samples=count,
        made_of=f"at most {max(errors):.1f} %; their deltas joined are their text",
    )


def _cost(count: int, cores: float, grown_mib: float) -> Figure:
    return Figure(
        name=f"{_named(count)}: processor",
        value=100 * cores,
        unit="%",
        samples=count,
        made_of=f"of a core for each session; private memory {grown_mib:.1f} MiB for each",
    )
