"""The first minute: starts the daemon, pulls three small models, speaks a sentence and transcribes it live.

Run by `make demo`. Afterwards the daemon keeps serving until Ctrl-C; with DEMO_EXIT=1 it ends with the demo.
"""

import difflib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PACKAGES = ("moonshine_tiny_en", "piper_en_us_joe_medium")
"""The third, silero_vad, is part of what Moonshine needs and comes with it."""

SENTENCE = "Good morning. This computer can speak, and it can also listen to what you say."
ENOUGH = 0.8
"""The share of the words that must come back. No voice sounds twice the same, and small models mishear one at times."""

PORT = 8080
STOP_LIMIT_S = 15
READY = re.compile(r"listening on (http://\S+)")


def main() -> int:
    """Returns 0 when the transcript has the words of the sentence."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: whatever ends the demo ends the daemon
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="audiocpp-demo-") as folder:
        try:
            return serve(Path(folder))
        except KeyboardInterrupt:
            return 130


def serve(work: Path) -> int:
    """Runs the daemon around the round trip, and on until Ctrl-C unless DEMO_EXIT is set."""
    print("\nStarting audiocppd.", flush=True)
    admin_socket = work / "admin.sock"
    daemon, url = start(admin_socket)
    try:
        os.environ["AUDIOCPP_SOCKET"] = str(admin_socket)
        understood = round_trip(work)
        if not os.environ.get("DEMO_EXIT"):
            say_what_next(url, admin_socket)
            serve_until_interrupt(daemon)
    finally:
        stop(daemon)
    return 0 if understood else 1


def start(admin_socket: Path) -> "tuple[subprocess.Popen[str], str]":
    """The daemon on the default port, or on a free one when that is in use; and its URL."""
    for port in [PORT, 0] if is_free(PORT) else [0]:
        if port == 0:
            print(f"Port {PORT} is in use: taking a free one.", flush=True)
        command = [str(BIN / "audiocppd"), "--config", str(HERE / "quickstart.json"), "--port", str(port)]
        command += ["--admin-socket", str(admin_socket), "--log-level", "warning"]
        # A process group of its own: Ctrl-C in the terminal is for the demo, which then stops the daemon.
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0)
        try:
            if url := await_ready(daemon):
                return daemon, url
        except KeyboardInterrupt:
            stop(daemon)
            raise
        if is_free(PORT):
            break  # it was not the port
    raise SystemExit(f"the daemon did not start (exit status {daemon.wait()})")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def await_ready(daemon: "subprocess.Popen[str]") -> str | None:
    """The daemon's URL, from its ready line; None when it ends instead."""
    assert daemon.stdout is not None
    for line in daemon.stdout:
        if match := READY.search(line):
            return match[1]
    return None


def round_trip(work: Path) -> bool:
    """Text to speech to text; whether the words came back."""
    ctl("pull", *PACKAGES)
    speech = work / "speech.wav"
    ctl("say", SENTENCE, "--model", "piper", "-o", str(speech))
    heard = listen(speech)
    spoken = words(SENTENCE)
    same = sum(block.size for block in difflib.SequenceMatcher(None, spoken, words(heard)).get_matching_blocks())
    print(f"\nSpoken: {SENTENCE}\nHeard:  {heard.strip()}\n{same} of {len(spoken)} words came back.", flush=True)
    return same >= ENOUGH * len(spoken)


def ctl(*arguments: str) -> None:
    """Runs `audiocppctl`, showing the command."""
    print(f"\n$ audiocppctl {shlex.join(arguments)}", flush=True)
    if status := subprocess.run([BIN / "audiocppctl", *arguments], check=False).returncode:
        raise SystemExit(f"audiocppctl {arguments[0]} failed (exit status {status})")


def listen(speech: Path) -> str:
    """Streams the file into the live WebSocket at real-time pace and shows words as they come. Returns the text."""
    command = ["listen", str(speech), "--model", "moonshine-live", "--json"]
    print(f"\n$ audiocppctl {shlex.join(command)}   # its events, as text", flush=True)
    text = ""
    with subprocess.Popen([BIN / "audiocppctl", *command], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        for line in client.stdout:
            event = json.loads(line)
            if event["type"] == "transcript.text.delta":
                print(event["delta"], end="", flush=True)
            elif event["type"] == "transcript.text.done":
                text = event["text"]
    print()
    if client.returncode:
        raise SystemExit(f"audiocppctl listen failed (exit status {client.returncode})")
    return text


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def say_what_next(url: str, admin_socket: Path) -> None:
    """Commands that work while the daemon serves."""
    print(
        f"""
Serving on {url} until Ctrl-C. In another terminal:

  export AUDIOCPP_SOCKET={admin_socket}
  cd {shlex.quote(str(Path.cwd()))}
  .venv/bin/audiocppctl say "Hello there." -o hello.wav
  .venv/bin/audiocppctl listen hello.wav
  .venv/bin/audiocppctl ps
  curl {url}/v1/audio/transcriptions -F model=moonshine -F file=@hello.wav
""",
        flush=True,
    )


def serve_until_interrupt(daemon: "subprocess.Popen[str]") -> None:
    try:
        status = daemon.wait()
    except KeyboardInterrupt:
        print("\nStopping.", flush=True)
    else:
        raise SystemExit(f"the daemon has ended (exit status {status})")


def stop(daemon: "subprocess.Popen[str]") -> None:
    """Ends the daemon and waits for it."""
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


if __name__ == "__main__":
    sys.exit(main())
