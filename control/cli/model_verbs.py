"""Verbs about models: models, ps, load, unload."""

import argparse

from audiocpp.control.cli.output import Column, Output, mebibytes, names, seconds
from audiocpp.control.cli.verb import Verb, admin_client, positive_seconds
from audiocpp.control.protocol import LOAD_TIMEOUT_S, UNLOAD_TIMEOUT_S, LoadReply, UnloadReply

_MODELS = (
    Column("ID", "id"),
    Column("FAMILY", "family"),
    Column("TASK", "task"),
    Column("MODE", "mode"),
    Column("STATE", "state"),
    Column("PACKAGE", "package"),
    Column("ALIASES", "aliases", names),
    Column("REASON", "reason"),
)

_PS = (
    Column("ID", "id"),
    Column("STATE", "state"),
    Column("PID", "pid"),
    Column("PLACEMENT", "placement"),
    Column("SLOTS", "slots"),
    Column("ACTIVE", "active_slots"),
    Column("QUEUED", "queued_requests"),
    Column("MEMORY", "resident_bytes", mebibytes),
    Column("PEAK", "peak_bytes", mebibytes),
    Column("LIMIT", "limit_bytes", mebibytes),
    Column("IDLE", "idle_s", seconds),
    Column("RETRY", "retry_after_s", seconds),
    Column("REASON", "reason"),
)


def _models(arguments: argparse.Namespace, output: Output) -> None:
    reply = admin_client(arguments).models()
    if output.as_json:
        output.json(reply)
    else:
        output.table(_MODELS, reply["models"])


def _ps(arguments: argparse.Namespace, output: Output) -> None:
    reply = admin_client(arguments).ps()
    if output.as_json:
        output.json(reply)
    else:
        output.table(_PS, reply["models"])


def _configure_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="model id or alias")
    parser.add_argument("--no-wait", action="store_true", help="return as soon as the load has been admitted")
    _add_timeout(parser, LOAD_TIMEOUT_S, "how long to wait for the model; exit code 8 when it is not resident by then")


def _load(arguments: argparse.Namespace, output: Output) -> None:
    wait = not arguments.no_wait
    reply = admin_client(arguments).load(arguments.id, wait=wait, timeout_s=arguments.timeout)
    if output.as_json:
        output.json(reply)
    else:
        output.line(_load_text(reply))


def _load_text(reply: LoadReply) -> str:
    if not reply["changed"]:
        return f"{reply['id']} was {reply['state']} already"
    parts = [f"{reply['id']} {reply['state']}"]
    if reply["seconds"] is not None:
        parts.append(f"in {reply['seconds']:.2f} s")
    if reply["resident_bytes"] is not None:
        parts.append(f"{mebibytes(reply['resident_bytes'])} resident")
    if reply["placement"]:
        parts.append(f"on {reply['placement']}")
    return ", ".join(parts)


def _configure_unload(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("ids", metavar="ID", nargs="*", default=[], help="model ids or aliases")
    which.add_argument("--all", action="store_true", help="every resident model")
    parser.add_argument("--force", action="store_true", help="cancel running requests instead of waiting for them")
    _add_timeout(parser, UNLOAD_TIMEOUT_S, "how long to wait for running requests; exit code 6 when they still run")


def _unload(arguments: argparse.Namespace, output: Output) -> None:
    ids = None if arguments.all else arguments.ids
    reply = admin_client(arguments).unload(ids, force=arguments.force, timeout_s=arguments.timeout)
    if output.as_json:
        output.json(reply)
    else:
        output.line(_unload_text(reply))


def _unload_text(reply: UnloadReply) -> str:
    if not reply["changed"]:
        return f"nothing to unload (not resident: {names(reply['not_resident'])})"
    text = f"unloaded {names(reply['unloaded'])}, {mebibytes(reply['released_bytes'])} released"
    return f"{text} (not resident: {names(reply['not_resident'])})" if reply["not_resident"] else text


def _add_timeout(parser: argparse.ArgumentParser, default_s: float, help_text: str) -> None:
    help_text = f"{help_text} (default {default_s:g})"
    parser.add_argument("--timeout", metavar="SECONDS", type=positive_seconds, default=default_s, help=help_text)


VERBS = (
    Verb("models", "all configured models and their states", "audiocppctl models", _models),
    Verb("ps", "the models in memory and what they hold", "audiocppctl ps --json", _ps),
    Verb("load", "make a model resident", "audiocppctl load moonshine --timeout 60", _load, _configure_load),
    Verb("unload", "take models out of memory", "audiocppctl unload --all --force", _unload, _configure_unload),
)
