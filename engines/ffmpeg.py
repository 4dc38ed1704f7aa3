"""The optional `ffmpeg` extra: PyAV with FFmpeg's libraries. Both sides of the wire ask here: nothing is imported."""

import importlib.util

INSTALL_COMMAND = "pip install 'audiocppd[ffmpeg]'"


def is_installed() -> bool:
    return importlib.util.find_spec("av") is not None
