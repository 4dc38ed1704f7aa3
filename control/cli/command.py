"""The command line as a whole: the parser made from the verbs, and how a verb's end becomes an exit code."""

import argparse
from collections.abc import Sequence

from audiocpp.control.cli.output import Output, discard_output
from audiocpp.control.cli.verb import VERBS, Verb
from audiocpp.control.failures import ControlError
from audiocpp.control.protocol import ExitCode

INTERRUPTED = 130
"""What a shell reports for a command ended by Ctrl-C."""

_HELP_WIDTH = 79

_EPILOG = f"""\
The admin socket is --socket, else $AUDIOCPP_SOCKET, else $XDG_RUNTIME_DIR/audiocpp/admin.sock
or /run/audiocpp/admin.sock, whichever is listened on.

exit codes:
  {", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode if code < 5)},
  {", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode if code >= 5)}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. Returns the exit code; a usage error exits with 2 by itself, as argparse does."""
    try:
        return _perform(make_parser().parse_args(arguments))
    except BrokenPipeError:
        discard_output()
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _perform(parsed: argparse.Namespace) -> int:
    output = Output(as_json=parsed.json)
    try:
        parsed.verb.load().perform(parsed, output)
    except ControlError as error:
        output.error(error)
        return error.exit_code
    return ExitCode.OK


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="audiocppctl",
        description="Operate audiocppd, and speak to it.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    _add_common(parser, default_socket=None, default_json=False)
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=VerbParser)
    for verb in VERBS:
        _add_verb(verbs, verb)
    return parser


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """As wide as any terminal: asking for the real width would cost every call an import of shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_HELP_WIDTH)


class VerbParser(argparse.ArgumentParser):
    """The parser of one verb. It imports the verb's module, for its arguments, when it is asked to parse."""

    verb: Verb | None = None

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self.configure()
        return super().parse_known_args(args, namespace)

    def configure(self) -> None:
        """Add the verb's arguments, once."""
        verb, self.verb = self.verb, None
        if verb is None:
            return
        # Accepted before and after the verb: SUPPRESS keeps the verb's default from overwriting what came before.
        _add_common(self, default_socket=argparse.SUPPRESS, default_json=argparse.SUPPRESS)
        verb.load().configure(self)


def _add_verb(verbs: "argparse._SubParsersAction[VerbParser]", verb: Verb) -> None:
    parser = verbs.add_parser(
        verb.name,
        help=verb.help,
        description=f"{verb.help[0].upper()}{verb.help[1:]}.",
        epilog=f"example:\n  {verb.example}\n",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(verb=verb)
    parser.verb = verb


def _add_common(parser: argparse.ArgumentParser, *, default_socket: str | None, default_json: str | bool) -> None:
    parser.add_argument("--socket", metavar="PATH", default=default_socket, help="the daemon's admin socket")
    parser.add_argument("--json", action="store_true", default=default_json, help="answer with JSON")
