"""docs/cli.md says what the command does: every verb, every option, every exit code."""

import argparse
import re
from pathlib import Path

import pytest

from audiocpp.control.cli.command import VerbParser
from audiocpp.control.cli.verb import VERBS, Verb
from audiocpp.control.protocol import EXIT_CODES, ExitCode

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
VERB_SECTIONS = dict(re.findall(r"^### `(\w+)`.*?\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL))
COMMON_OPTIONS = {"-h", "--help", "--socket", "--json"}


def test_the_documented_verbs_are_the_verbs() -> None:
    assert list(VERB_SECTIONS) == [verb.name for verb in VERBS]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_documented_options_are_the_options(verb: Verb) -> None:
    parser = VerbParser(argument_default=argparse.SUPPRESS)
    parser.verb = verb
    parser.configure()
    options = {option for action in parser._actions for option in action.option_strings} - COMMON_OPTIONS
    documented = set(re.findall(r"`(--?[a-z][a-z-]*)", VERB_SECTIONS[verb.name])) - COMMON_OPTIONS
    assert documented == options


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_each_verb_has_an_example(verb: Verb) -> None:
    assert f"audiocppctl {verb.name}" in VERB_SECTIONS[verb.name]


def test_the_documented_exit_codes_are_the_exit_codes() -> None:
    rows = re.findall(r"^\| (\d) \| ([a-z ]+?) \| .+? \|(.*)\|$", TEXT, re.MULTILINE)
    documented = {ExitCode(int(number)): (name, set(re.findall(r"`(\w+)`", codes))) for number, name, codes in rows}
    assert documented == {
        code: (
            code.name.lower().replace("_", " "),
            {error for error, exit_code in EXIT_CODES.items() if exit_code is code},
        )
        for code in ExitCode
    }
