"""The registries' own clients, pip and npm, each as a process of its own.

So the mirrors, proxies and credentials that are configured for them apply, and a download can be ended at any time.
Both functions put one archive into `folder`, keep what else they write in `scratch`, and return why there is none, or
an empty string.
"""

import os
import sys
from pathlib import Path

import msgspec
import trio

from audiocpp.engines.spec import NpmSource, PypiSource

_MAX_REASON_CHARS = 300


async def pip_download(source: PypiSource, folder: Path, scratch: Path) -> str:
    requirement = f"{source.package}=={source.version}"
    target = ["--platform", source.platform, "--python-version", "3.11", "--implementation", "cp"]
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--quiet", "--retries", "2", "download", *options, *target]
    environment = os.environ | {"TMPDIR": str(scratch)}
    try:
        done = await trio.run_process(
            [*pip, "--dest", str(folder), requirement],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=environment,
        )
    except OSError as error:
        return f"{sys.executable}: {error.strerror}"
    return pip_reason(done.stderr.decode(errors="replace")) if done.returncode else ""


def pip_reason(words: str) -> str:
    """pip's complaints in one line."""
    if "No module named pip" in words:
        return f"pip is not installed for {sys.executable}"
    lines = words.strip().splitlines() or ["pip failed without a word"]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reasons = ["the package index cannot be reached"] if "WARNING: Retrying" in words else []
    reasons.append((errors or lines)[-1])
    return "; ".join(reasons)[:_MAX_REASON_CHARS]


async def npm_pack(source: NpmSource, folder: Path, scratch: Path) -> str:
    npm = ["npm", "pack", f"{source.package}@{source.version}", "--json", "--ignore-scripts"]
    environment = os.environ | {
        "TMPDIR": str(scratch),
        "npm_config_cache": str(scratch / "npm"),
        "npm_config_update_notifier": "false",
    }
    try:
        done = await trio.run_process(
            [*npm, "--pack-destination", str(folder)],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=environment,
            cwd=scratch,  # away from the project settings of wherever the daemon was started
        )
    except FileNotFoundError:
        return "npm is not installed; it comes with Node.js (on Debian and Ubuntu: apt install npm)"
    except OSError as error:
        return f"npm: {error.strerror}"
    return npm_reason(done.stdout, done.stderr) if done.returncode else ""


class _NpmError(msgspec.Struct):
    summary: str = ""


class _NpmFailure(msgspec.Struct):
    error: _NpmError


def npm_reason(stdout: bytes, stderr: bytes) -> str:
    """What `npm --json` says of its failure; without that, the last line of its complaints."""
    try:
        summary = msgspec.json.decode(stdout, type=_NpmFailure).error.summary
    except msgspec.DecodeError:
        summary = ""
    lines = stderr.decode(errors="replace").strip().splitlines() or ["npm failed without a word"]
    return " ".join((summary or lines[-1]).split())[:_MAX_REASON_CHARS]
