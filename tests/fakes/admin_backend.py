"""A daemon in miniature behind the admin app: models that load at once, unless the test says otherwise."""

from collections.abc import Sequence

import trio

from audiocpp.control.backend import ReportPull
from audiocpp.control.protocol import (
    ExplainReply,
    LoadReply,
    ModelRow,
    ModelState,
    PackageRow,
    PsRow,
    PullReply,
    StatusReply,
    UnloadReply,
)

MODEL_BYTES = 97 * 2**20


class Refusal(Exception):
    """An exception in the shape of a backend error."""

    def __init__(
        self, code: str, *, status: int = 400, message: str = "refused", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.message = message
        self.type = "invalid_request_error" if status < 500 else "server_error"
        self.param = None
        self.retry_after_s = retry_after_s


class FakeBackend:
    """`failure` is raised by every method while it is set; `gate` holds a load or a pull back until it is set."""

    def __init__(self) -> None:
        self.states: dict[str, ModelState] = {"moonshine": "unloaded", "piper": "ready"}
        self.installed = {"moonshine_tiny_en": False, "silero_vad": True}
        self.url: str | None = None
        self.failure: Exception | None = None
        self.gate = trio.Event()
        self.gate.set()
        self.entered = trio.Event()
        self.cancelled = trio.Event()
        self.unload_calls: list[tuple[Sequence[str] | None, bool, float]] = []

    async def status(self) -> StatusReply:
        self._may_fail()
        resident = sum(state == "ready" for state in self.states.values())
        return {
            "version": "0.1.0",
            "pid": 42,
            "state": "running",
            "url": self.url,
            "uptime_s": 61.5,
            "config_path": None,
            "models_root": "/models",
            "backend": "cpu",
            "models": len(self.states),
            "resident": resident,
            "resident_bytes": resident * MODEL_BYTES,
            "active_requests": 0,
            "queued_requests": 0,
        }

    async def models(self) -> list[ModelRow]:
        self._may_fail()
        return [
            {
                "id": model_id,
                "family": "family_of_" + model_id,
                "task": "asr",
                "mode": "offline",
                "state": state,
                "package": None,
                "aliases": ["first", "second"],
                "reason": None,
            }
            for model_id, state in self.states.items()
        ]

    async def ps(self) -> list[PsRow]:
        self._may_fail()
        return [_ps_row(model_id, state) for model_id, state in self.states.items() if state != "unloaded"]

    async def load(self, model_id: str, *, wait: bool, timeout_s: float) -> LoadReply:
        await self._work()
        self._must_know(model_id)
        changed = self.states[model_id] == "unloaded"
        if changed:
            self.states[model_id] = "ready" if wait else "loading"
        seconds = 0.47 if wait else None
        return {
            "id": model_id,
            "changed": changed,
            "state": self.states[model_id],
            "seconds": seconds,
            "resident_bytes": MODEL_BYTES if wait else None,
            "placement": "cpu",
        }

    async def explain(self, model_id: str) -> ExplainReply:
        self._may_fail()
        self._must_know(model_id)
        return {
            "id": model_id,
            "state": self.states[model_id],
            "reason": None,
            "missing_packages": [],
            "estimate_bytes": MODEL_BYTES,
            "estimate_source": "measured",
            "resident_bytes": None,
            "room": "after_eviction",
            "evicts": ["piper"],
            "binding_limit": None,
            "limits": [{"name": "the host's free memory", "free_bytes": 2 * MODEL_BYTES}],
            "placements": [
                {
                    "backend": "cpu",
                    "device": 0,
                    "runtime": "onnxruntime",
                    "providers": ["CPUExecutionProvider"],
                    "threads": 2,
                    "reason": "the best that is here",
                }
            ],
            "refusals": [{"backend": "cuda", "reason": "needs an NVIDIA GPU"}],
        }

    async def unload(self, model_ids: Sequence[str] | None, *, force: bool, timeout_s: float) -> UnloadReply:
        await self._work()
        self.unload_calls.append((model_ids, force, timeout_s))
        ids = list(self.states) if model_ids is None else list(model_ids)
        for model_id in ids:
            self._must_know(model_id)
        unloaded = [model_id for model_id in ids if self.states[model_id] != "unloaded"]
        self.states.update(dict.fromkeys(unloaded, "unloaded"))
        return {
            "changed": bool(unloaded),
            "unloaded": unloaded,
            "not_resident": [model_id for model_id in ids if model_id not in unloaded],
            "released_bytes": MODEL_BYTES * len(unloaded),
        }

    async def packages(self) -> list[PackageRow]:
        self._may_fail()
        return [
            {
                "id": package,
                "family": "a_family",
                "installed": installed,
                "license": "MIT",
                "size_bytes": 29 * 2**20,
                "path": f"/models/{package}" if installed else None,
            }
            for package, installed in self.installed.items()
        ]

    async def pull(self, package_id: str, report: ReportPull) -> PullReply:
        if package_id not in self.installed:
            raise Refusal("package_not_found", status=404, message=f"no package {package_id!r}")
        changed = not self.installed[package_id]
        report({"event": "package", "package": package_id, "license": "MIT", "size_bytes": 1000})
        if changed:
            for done_bytes in (0, 500, 1000):
                report(
                    {
                        "event": "progress",
                        "package": package_id,
                        "file": "a.onnx",
                        "done_bytes": done_bytes,
                        "total_bytes": 1000,
                    }
                )
        await self._work()
        self.installed[package_id] = True
        path = f"/models/{package_id}"
        return {"event": "done", "package": package_id, "changed": changed, "path": path, "seconds": 1.5}

    async def _work(self) -> None:
        self.entered.set()
        try:
            await self.gate.wait()
        except trio.Cancelled:
            self.cancelled.set()
            raise
        self._may_fail()

    def _may_fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _must_know(self, model_id: str) -> None:
        if model_id not in self.states:
            raise Refusal("model_not_found", status=404, message=f"no model {model_id!r}; configured: moonshine, piper")


def _ps_row(model_id: str, state: ModelState) -> PsRow:
    return {
        "id": model_id,
        "state": state,
        "pid": 4242,
        "placement": "cpu",
        "slots": 4,
        "active_slots": 1,
        "reserved_slots": 0,
        "queued_requests": 0,
        "resident_bytes": MODEL_BYTES,
        "peak_bytes": None,
        "limit_bytes": None,
        "idle_s": 3.0,
        "longest_run_s": None,
        "overdue": False,
        "reason": None,
        "retry_after_s": None,
    }
