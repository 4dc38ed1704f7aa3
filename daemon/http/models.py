"""GET /v1/models and /v1/models/ID, and the two routes that release memory. None of them loads a model."""

from typing import Any

import msgspec
from quart import Blueprint, Response, request

from audiocpp.daemon.backend import backend
from audiocpp.daemon.http.body import whole_body
from audiocpp.daemon.http.json_body import read_json
from audiocpp.daemon.http.reply import json_reply
from audiocpp.daemon.registry import ModelEntry
from audiocpp.daemon.residents import ModelStatus
from audiocpp.engines.spec import OptionSpec

models = Blueprint("models", __name__)

RESIDENT = frozenset({"ready", "busy", "draining"})


class UnloadBody(msgspec.Struct, kw_only=True):
    model_ids: list[str]


@models.get("/v1/models")
async def list_models() -> Response:
    """Lists the entries with their states. Loads none."""
    services = backend().services
    rows = [_row(services.registry.find(status.id), status) for status in services.residency.snapshot()]
    return json_reply({"object": "list", "data": rows})


@models.get("/v1/models/<path:model_id>")
async def get_model(model_id: str) -> Response:
    """One entry, by id or alias."""
    entry = backend().services.registry.find(model_id)
    return json_reply(_row(entry, backend().services.residency.status_of(entry.id)))


@models.post("/v1/tasks/unload_models")
async def unload_models() -> Response:
    """Unloads models, waiting for their running requests.

    Every known id is `unloaded` afterwards, whether or not it was resident.
    """
    body = await read_json(UnloadBody)
    registry = backend().services.registry
    asked = list(dict.fromkeys(body.model_ids))
    known = {name: registry.entries[name] for name in asked if name in registry.entries}
    await backend().services.residency.unload(known)
    return json_reply({"unloaded": list(known), "not_found": [name for name in asked if name not in known]})


@models.post("/v1/tasks/unload_all_models")
async def unload_all_models() -> Response:
    """Unloads every resident model, waiting for running requests."""
    await whole_body()  # ignored, but a reply before its end would close the connection
    services = backend().services
    resident = [status.id for status in services.residency.snapshot() if status.state in RESIDENT]
    await services.residency.unload(resident)
    return json_reply({"unloaded": resident})


def _row(entry: ModelEntry, status: ModelStatus) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": entry.id,
        "object": "model",
        "owned_by": "engine",
        "family": entry.family,
        "task": entry.task,
        "mode": entry.mode,
        "slots": status.slots,
        "active_slots": status.active_slots,
        "reserved_slots": status.reserved_slots,
        "queued_requests": status.queued_requests,
        "max_parallel_slots": status.max_parallel_slots,
        "loaded": status.state in RESIDENT,
        "path": str(_folder(entry)),
        "device": entry.device,
        "state": str(status.state),
        "package": entry.package.id,
        "aliases": list(entry.aliases),
        "placement": status.placement,
    }
    if status.reason is not None:
        row["reason"] = status.reason
    if _asked_for("include_session_options"):
        row["session_options"] = dict(entry.session_options)
    if _asked_for("include_params"):
        row["params"] = [_param(option) for option in entry.spec.options.request]
        row["spec"] = msgspec.to_builtins(entry.spec)
    return row


def _folder(entry: ModelEntry) -> object:
    return entry.files_dir or backend().services.store.models_root / entry.package.target_directory


def _param(option: OptionSpec) -> dict[str, Any]:
    """An option row as the spec has it: members that say nothing are absent."""
    row: dict[str, Any] = msgspec.to_builtins(option)
    return {key: value for key, value in row.items() if value is not None and not (key == "values" and not value)}


def _asked_for(name: str) -> bool:
    return request.args.get(name) in ("true", "1")
