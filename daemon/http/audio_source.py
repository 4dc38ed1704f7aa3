"""Audio that a request names instead of sending it as a file part: a path on this machine, or base64."""

import base64
import binascii
import re
import stat
from pathlib import Path

import trio
from quart import request

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import Forbidden, InvalidRequest
from audiocpp.daemon.http.guards import is_local

_DATA_URI = re.compile(r"\s*data:[^,]{0,256};base64,", re.IGNORECASE)
_SPACE = b" \t\r\n"


async def local_audio(path: str, param: str) -> Path:
    """The regular file at a path of this machine, symbolic links followed.

    It must lie below one of `audio_roots`; without any, it may lie anywhere when the request came in on a loopback
    listener, and nowhere otherwise. A path outside gets the same answer whether or not it exists.
    """
    roots = backend().services.config.audio_roots
    if not roots and not is_local(request):
        raise Forbidden("paths of the server's machine are not accepted here: audio_roots is not set", param=param)
    return await trio.to_thread.run_sync(_resolve, path, param, roots)


def _resolve(path: str, param: str, roots: tuple[Path, ...]) -> Path:
    try:
        found = Path(path).resolve()
        inside = not roots or any(found.is_relative_to(root.resolve()) for root in roots)
        if not inside:
            raise Forbidden(f"{param}: {path!r} does not lie below any of audio_roots", param=param)
        mode = found.stat().st_mode
        if not stat.S_ISREG(mode):
            raise InvalidRequest(f"{param}: {path!r} is not a regular file", param=param)
    except FileNotFoundError as error:
        raise InvalidRequest(f"{param}: {path!r} does not exist", param=param) from error
    except (OSError, ValueError, RuntimeError) as error:  # no permission, a NUL byte, a loop of links
        raise InvalidRequest(f"{param}: {path!r} cannot be read: {error}", param=param) from error
    return found


def base64_audio(text: str, param: str) -> bytes:
    """Base64 with or without a `data:` prefix, white space, or padding. Raises `InvalidRequest`."""
    prefix = _DATA_URI.match(text)
    encoded = text[prefix.end() if prefix else 0 :].encode().translate(None, _SPACE)
    body = encoded.rstrip(b"=")
    if len(encoded) - len(body) > 2 or len(body) % 4 == 1:
        raise InvalidRequest(f"{param} is not valid base64: it is cut off or has too much padding", param=param)
    try:
        data = base64.b64decode(body + b"=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{param} is not valid base64: {error}", param=param) from error
    if not data:
        raise InvalidRequest(f"{param} is empty", param=param)
    return data
