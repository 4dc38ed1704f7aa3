"""`listen`: live transcription of a file, a pipe or the microphone over the WebSocket route."""

import argparse
import shutil
import sys
import urllib.parse
import wave
from contextlib import closing
from pathlib import Path

from audiocpp.control.cli.live_text import LiveText
from audiocpp.control.cli.output import Output
from audiocpp.control.cli.public import configure_public, given_fields, public_url
from audiocpp.control.failures import Failed
from audiocpp.control.live_stream import stream_live
from audiocpp.control.pcm_source import SAMPLE_FORMATS, PcmFormat, PcmSource, PipeSource, ProgramSource, WavSource
from audiocpp.control.public_client import LIVE_PATH
from audiocpp.control.websocket import WebSocket

_MICROPHONE = PcmFormat()


def configure(parser: argparse.ArgumentParser) -> None:
    source_help = "WAV file (others through ffmpeg), or - for raw PCM on stdin; the microphone when left out"
    parser.add_argument("file", metavar="FILE", nargs="?", help=source_help)
    pace_help = "how fast to stream a file, in multiples of real time; 0: as fast as the daemon takes it (default 1)"
    parser.add_argument("--pace", metavar="FACTOR", type=_pace, default=1.0, help=pace_help)
    parser.add_argument("--rate", metavar="HZ", type=int, default=_MICROPHONE.sample_rate, help="of PCM on stdin")
    parser.add_argument("--channels", metavar="N", type=int, default=_MICROPHONE.channels, help="of PCM on stdin")
    parser.add_argument(
        "--format", choices=SAMPLE_FORMATS, default=_MICROPHONE.sample_format, help="of PCM on stdin (default s16le)"
    )
    partials_help = "also show text that may still change (default: on a terminal)"
    parser.add_argument("--partials", action=argparse.BooleanOptionalAction, default=None, help=partials_help)
    parser.add_argument("--prompt", metavar="TEXT", help="names and terms to expect")
    configure_public(parser)


def _pace(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1000")
    return value


def perform(arguments: argparse.Namespace, output: Output) -> None:
    url = public_url(arguments)
    with closing(_open_source(arguments)) as source:
        target = f"{LIVE_PATH}?{_query(arguments, source.format, output)}"
        with closing(WebSocket.connect(url, target, timeout_s=arguments.timeout)) as connection:
            pace = arguments.pace if arguments.file else 0.0  # a microphone sets its own
            text = LiveText(output)
            show = output.json if output.as_json else text.show
            for event in stream_live(connection, source, pace=pace, answer_timeout_s=arguments.timeout):
                show(event)


def _query(arguments: argparse.Namespace, pcm: PcmFormat, output: Output) -> str:
    wanted = arguments.partials
    partials = output.is_terminal and not output.as_json if wanted is None else wanted
    query = {**given_fields(arguments, "model", "language", "prompt"), **pcm._asdict()}
    if partials:
        query["partials"] = "true"
    return urllib.parse.urlencode(query)


def _open_source(arguments: argparse.Namespace) -> PcmSource:
    if arguments.file is None:
        return ProgramSource(_recorder(), _MICROPHONE)
    if arguments.file == "-":
        return PipeSource(sys.stdin.fileno(), PcmFormat(arguments.rate, arguments.channels, arguments.format))
    return _open_file(Path(arguments.file))


def _open_file(path: Path) -> PcmSource:
    try:
        return WavSource(path)
    except (wave.Error, EOFError):
        if (ffmpeg := shutil.which("ffmpeg")) is None:
            message = f"{path} is not a WAV file with integer samples. Install ffmpeg, or use `audiocppctl transcribe`."
            raise Failed(message, code="unsupported_media") from None
        return ProgramSource([ffmpeg, "-v", "error", "-i", str(path), *_ffmpeg_output()], _MICROPHONE)
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}.", code="file_not_readable") from error


def _recorder() -> list[str]:
    rate, channels = str(_MICROPHONE.sample_rate), str(_MICROPHONE.channels)
    if arecord := shutil.which("arecord"):
        return [arecord, "-q", "-t", "raw", "-f", "S16_LE", "-r", rate, "-c", channels]
    if ffmpeg := shutil.which("ffmpeg"):
        return [ffmpeg, "-v", "error", "-f", "alsa", "-i", "default", *_ffmpeg_output()]
    raise Failed(
        "No way to record here: install alsa-utils (arecord) or ffmpeg, or give a FILE, or - for PCM on stdin.",
        code="no_microphone",
    )


def _ffmpeg_output() -> list[str]:
    return ["-f", "s16le", "-ar", str(_MICROPHONE.sample_rate), "-ac", str(_MICROPHONE.channels), "-"]
