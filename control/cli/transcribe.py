"""`transcribe`: the text of an audio file, by the public API."""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from audiocpp.control.cli.output import Output
from audiocpp.control.cli.public import configure_public, given_fields, public_url
from audiocpp.control.failures import Failed
from audiocpp.control.public_client import PublicClient


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="audio file of any format that the daemon reads, or - for stdin")
    parser.add_argument("--prompt", metavar="TEXT", help="names and terms to expect")
    configure_public(parser)


def perform(arguments: argparse.Namespace, output: Output) -> None:
    client = PublicClient(public_url(arguments), timeout_s=arguments.timeout)
    fields = given_fields(arguments, "model", "language", "prompt")
    with _opened(arguments.file) as audio:
        size_bytes = os.fstat(audio.fileno()).st_size
        reply = client.transcribe(audio, size_bytes=size_bytes, name=Path(arguments.file).name, fields=fields)
    if output.as_json:
        output.json(reply)
    else:
        output.line(reply["text"])


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """The file, positioned at its start. Standard input is spooled first: an upload says its length."""
    if name != "-":
        try:
            audio = Path(name).open("rb")  # noqa: SIM115 - only opening may be blamed on the name
        except OSError as error:
            raise Failed(f"{name}: {error.strerror}.", code="file_not_readable") from error
        with audio:
            yield audio
        return
    with tempfile.TemporaryFile() as spooled:
        shutil.copyfileobj(sys.stdin.buffer, spooled)
        spooled.seek(0)
        yield spooled
