"""The first minute: starts the daemon, pulls three small models, speaks a sentence and transcribes it live.

Run by `make demo`. Afterwards the daemon keeps serving until Ctrl-C; with DEMO_EXIT=1 it ends with the demo.
"""

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
PACKAGES = ("moonshine_tiny_en", "silero_vad", "piper_en_us_joe_medium")
SENTENCE = "The quick brown fox jumps over the lazy dog. Speech is made and understood on this machine alone."
FIRST_PORT = 8080
STOP_LIMIT_S = 15
READY = re.compile(r"listening on (http://\S+)")


def main() -> int:
    """Returns 0 when the transcript has the words of the sentence."""
    with tempfile.TemporaryDirectory(prefix="audiocpp-demo-") as folder:
        work = Path(folder)
        admin_socket = work / "admin.sock"
        options = ["--config", HERE / "quickstart.json", "--port", str(free_port())]
        options += ["--admin-socket", admin_socket, "--log-level", "warning"]
        daemon = subprocess.Popen([BIN / "audiocppd", *options], stdout=subprocess.PIPE, text=True)
        try:
            url = await_ready(daemon)
            os.environ["AUDIOCPP_SOCKET"] = str(admin_socket)
            understood = round_trip(work)
            say_what_next(url, admin_socket)
            if not os.environ.get("DEMO_EXIT"):
                daemon.wait()
        except KeyboardInterrupt:
            print()
        finally:
            stop(daemon)
    return 0 if understood else 1


def free_port() -> int:
    """The default port, or the next one that nobody uses, saying so."""
    for port in range(FIRST_PORT, FIRST_PORT + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                print(f"Port {port} is in use; trying {port + 1}.")
                continue
        return port
    raise SystemExit(f"no free port from {FIRST_PORT} on")


def await_ready(daemon: "subprocess.Popen[str]") -> str:
    """The daemon's URL, from its ready line."""
    assert daemon.stdout is not None
    for line in daemon.stdout:
        if match := READY.search(line):
            return match[1]
    raise SystemExit(f"the daemon did not start (exit status {daemon.wait()})")


def round_trip(work: Path) -> bool:
    """Text to speech to text; whether the words came back."""
    ctl("pull", *PACKAGES)
    speech = work / "speech.wav"
    ctl("say", SENTENCE, "--model", "piper", "-o", str(speech))
    heard = listen(speech)
    same = words(heard) == words(SENTENCE)
    print(f"\nSpoken: {SENTENCE}\nHeard:  {heard.strip()}\n{'The same words.' if same else 'The words differ.'}")
    return same


def ctl(*arguments: str) -> None:
    """Runs `audiocppctl`, showing the command."""
    print(f"\n$ audiocppctl {shlex.join(arguments)}", flush=True)
    subprocess.run([BIN / "audiocppctl", *arguments], check=True)


def listen(speech: Path) -> str:
    """Streams the file into the live WebSocket at real-time pace and shows words as they come. Returns the text."""
    command = ["listen", str(speech), "--model", "moonshine-live", "--json"]
    print(f"\n$ audiocppctl {shlex.join(command)}", flush=True)
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
Serving on {url}. Try:

  curl {url}/v1/audio/speech -d '{{"model": "piper", "input": "Hello there."}}' -o hello.wav
  curl {url}/v1/audio/transcriptions -F model=moonshine -F file=@hello.wav
  AUDIOCPP_SOCKET={admin_socket} {BIN / "audiocppctl"} ps
  AUDIOCPP_SOCKET={admin_socket} {BIN / "audiocppctl"} listen hello.wav
""",
        flush=True,
    )


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
