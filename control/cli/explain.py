"""`explain`: what loading a model would mean, and why."""

import argparse

from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Output, mebibytes
from audiocpp.control.protocol import ExplainReply

_ROOM = {
    "now": "fits now",
    "after_eviction": "fits after unloading {evicts}",
    "after_waiting": "fits once models in use are gone; {binding_limit} stands in the way",
    "never": "does not fit; {binding_limit} stands in the way",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="model id or alias")


def perform(arguments: argparse.Namespace, output: Output) -> None:
    show(admin_client(arguments).explain(arguments.id), output)


def show(reply: ExplainReply, output: Output) -> None:
    """Prints the reply; `load --dry-run` does the same."""
    if output.as_json:
        output.json(reply)
        return
    for line in _lines(reply):
        output.line(line)


def _lines(reply: ExplainReply) -> list[str]:
    lines = [f"{reply['id']} is {reply['state']}"]
    if reply["room"] != "resident":
        room = _ROOM[reply["room"]].format(evicts=", ".join(reply["evicts"]), binding_limit=reply["binding_limit"])
        lines[0] += f" and {room}"
    if reply["reason"]:
        lines.append(f"  because: {reply['reason']}")
    lines += [f"  missing package: {package}" for package in reply["missing_packages"]]
    source = "measured before" if reply["estimate_source"] == "measured" else "by the rule, never loaded here"
    lines.append(f"  needs {mebibytes(reply['estimate_bytes'])} ({source})")
    lines += [f"  {limit['name']} allows {mebibytes(limit['free_bytes'])}" for limit in reply["limits"]]
    for place in reply["placements"]:
        providers, reason = "+".join(place["providers"]), place["reason"]
        threads = "1 thread" if place["threads"] == 1 else f"{place['threads']} threads"
        lines.append(f"  on {place['runtime']}:{providers}, {threads}: {reason}")
    return lines + [f"  not on {refusal['backend']}: {refusal['reason']}" for refusal in reply["refusals"]]
