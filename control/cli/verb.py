"""What a verb is, and the table of all of them.

A verb's module is imported when the verb is used, so that `ps` does not pay for `listen`. It holds

    configure(parser)            adds the verb's arguments
    perform(arguments, output)   answers on the Output; raises a ControlError for every end but success
"""

import argparse
import importlib
from typing import NamedTuple, Protocol, cast

from audiocpp.control.cli.output import Output


class VerbModule(Protocol):
    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def perform(self, arguments: argparse.Namespace, output: Output) -> None: ...


class Verb(NamedTuple):
    """`example` is a command line that works as it stands once the daemon of the README runs."""

    name: str
    help: str
    example: str

    def load(self) -> VerbModule:
        return cast("VerbModule", importlib.import_module(f"audiocpp.control.cli.{self.name}"))


VERBS: tuple[Verb, ...] = (
    Verb("status", "what the daemon is, where it listens, what it holds", "audiocppctl status"),
    Verb("version", "versions of this command and of the daemon", "audiocppctl version --json"),
    Verb("models", "all configured models and their states", "audiocppctl models"),
    Verb("ps", "the models in memory and what they hold", "audiocppctl ps --json"),
    Verb("load", "make a model resident", "audiocppctl load moonshine --timeout 60"),
    Verb("explain", "what loading a model would mean, and why", "audiocppctl explain moonshine"),
    Verb("unload", "take models out of memory", "audiocppctl unload --all --force"),
    Verb("packages", "packages of model files, installed or not", "audiocppctl packages"),
    Verb("pull", "download and install packages", "audiocppctl pull moonshine_tiny_en"),
    Verb("transcribe", "the text of an audio file", "audiocppctl transcribe speech.flac"),
    Verb("say", "speak a text", 'audiocppctl say "Good morning." -o morning.wav'),
    Verb("listen", "live transcription of the microphone, a file or a pipe", "audiocppctl listen speech.wav"),
)
