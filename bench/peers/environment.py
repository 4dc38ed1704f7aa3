"""Environments of the peers: one virtual environment each below `.cache/bench`, made on first use."""

import subprocess
import sys
import venv
from pathlib import Path

from bench.companion import CHECKOUT

PEERS = {"moonshine": "moonshine_voice==0.1.0", "piper": "piper-tts==1.8.0"}


def peer_python(name: str) -> Path:
    """The interpreter of the peer's environment, which is made, and its package installed, unless it is there."""
    folder = CHECKOUT / ".cache" / "bench" / name
    python = folder / "bin" / "python"
    complete = folder / PEERS[name]
    if not complete.exists():
        print(f"installing {PEERS[name]} into {folder.relative_to(CHECKOUT)}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PEERS[name]], check=True)
        complete.touch()
    return python
