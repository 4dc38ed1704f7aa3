"""`ps`: what is in memory."""

import argparse

from audiocpp.control.cli.arguments import no_arguments
from audiocpp.control.cli.connection import admin_client
from audiocpp.control.cli.output import Column, Output, mebibytes, seconds, yes_or_nothing


def without_suffix(placement: str) -> str:
    """`onnxruntime:CPU`: every provider of ONNX Runtime is an ExecutionProvider."""
    return placement.replace("ExecutionProvider", "")


_COLUMNS = (
    Column("ID", "id"),
    Column("STATE", "state"),
    Column("PID", "pid"),
    Column("PLACEMENT", "placement", without_suffix),
    Column("SLOTS", "slots"),
    Column("ACTIVE", "active_slots"),
    Column("RESERVED", "reserved_slots"),
    Column("QUEUED", "queued_requests"),
    Column("MEMORY", "resident_bytes", mebibytes),
    Column("PEAK", "peak_bytes", mebibytes),
    Column("LIMIT", "limit_bytes", mebibytes),
    Column("IDLE", "idle_s", seconds),
    Column("RUNNING", "longest_run_s", seconds),
    Column("OVERDUE", "overdue", yes_or_nothing),
    Column("RETRY", "retry_after_s", seconds),
    Column("REASON", "reason"),
)

configure = no_arguments


def perform(arguments: argparse.Namespace, output: Output) -> None:
    reply = admin_client(arguments).ps()
    if output.as_json:
        output.json(reply)
    else:
        output.table(_COLUMNS, reply["models"])
