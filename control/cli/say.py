"""`say`: speech from a text, by the public API, into a file or the loudspeaker."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import BinaryIO

from audiocpp.control.cli.output import Output
from audiocpp.control.cli.public import configure_public, given_fields, public_url
from audiocpp.control.failures import Failed
from audiocpp.control.public_client import PublicClient

_PLAYER = "aplay"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="what to say, or - to read it from stdin")
    parser.add_argument("-o", "--output", metavar="FILE", help=f"WAV file to write, - for stdout (default: {_PLAYER})")
    parser.add_argument("--voice", metavar="NAME", help="a voice of the model")
    configure_public(parser)


def perform(arguments: argparse.Namespace, output: Output) -> None:
    """Say it, and with --json tell how long it is and how long it took."""
    if arguments.output is None and shutil.which(_PLAYER) is None:
        raise Failed(f"{_PLAYER} is not installed: nothing to play with. Give -o FILE, or install alsa-utils.")
    text = sys.stdin.read() if arguments.text == "-" else arguments.text
    fields = {"input": text, **given_fields(arguments, "model", "language", "voice")}
    client = PublicClient(public_url(arguments), timeout_s=arguments.timeout)
    with client.speak(fields) as response:
        with _sink(arguments.output) as sink:
            shutil.copyfileobj(response, sink)
        timing = _timing(response.headers)
    if output.as_json and arguments.output != "-":
        output.json({"file": arguments.output, "timing": timing})
    elif arguments.output not in (None, "-") and output.is_terminal:
        output.line(f"{arguments.output}: {(timing['audio_duration_ms'] or 0) / 1000:.1f} s of speech")


def _timing(headers: Message) -> dict[str, float | None]:
    names = {"wall_ms": "X-AudioCPP-Wall-Ms", "audio_duration_ms": "X-AudioCPP-Audio-Duration-Ms"}
    return {key: float(headers[name]) if name in headers else None for key, name in names.items()}


@contextmanager
def _sink(name: str | None) -> Iterator[BinaryIO]:
    if name is None:
        with _player() as player:
            yield player
    elif name == "-":
        yield sys.stdout.buffer
    else:
        try:
            file = Path(name).open("wb")  # noqa: SIM115 - only opening may be blamed on the name
        except OSError as error:
            raise Failed(f"{name}: {error.strerror}.", code="file_not_writable") from error
        with file:
            yield file


@contextmanager
def _player() -> Iterator[BinaryIO]:
    with subprocess.Popen([_PLAYER, "-q", "-"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        yield process.stdin  # type: ignore[misc]
    if process.returncode != 0:
        raise Failed(f"{_PLAYER} failed with status {process.returncode}; its message is above.")
