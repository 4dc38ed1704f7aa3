"""Lists what an aarch64 board would find no wheel for, by asking pip to resolve each requirement for it.

Gaps are printed, not failed: some are known to be built from source there.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("cpu", "tts", "ffmpeg", "systemd", "rknn")
PYTHONS = ("3.11", "3.13")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64", "linux_aarch64")


def requirements() -> list[tuple[str, str]]:
    """(extra or "base", requirement) without markers, since pip would judge those by this machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"base": project["dependencies"], **{name: project["optional-dependencies"][name] for name in EXTRAS}}
    return [(name, row.partition(";")[0].strip()) for name, rows in groups.items() for row in rows]


def resolve(requirement: str, python: str) -> str:
    """How many wheels the requirement brings, or pip's reason why there are not all of them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--only-binary=:all:", "--target", folder]
        options += ["--report", str(report), "--constraint", str(ROOT / "constraints.txt")]
        options += ["--python-version", python, *(word for name in PLATFORMS for word in ("--platform", name))]
        command = [sys.executable, "-m", "pip", "install", *options, requirement]
        pip = subprocess.run(command, capture_output=True, text=True, check=False)
        if pip.returncode:
            return f"MISSING  {reason(pip.stdout + pip.stderr)}"
        return f"{len(json.loads(report.read_text())['install'])} wheels"


def reason(output: str) -> str:
    if unmatched := re.search(
        r"no matching distributions available for your environment:\s+(.+?)\n\n", output, re.DOTALL
    ):
        return f"no wheel of {' '.join(unmatched[1].split())}"
    return output.strip().splitlines()[-1].removeprefix("ERROR: ")


def main() -> None:
    for python in PYTHONS:
        print(f"Python {python}, {PLATFORMS[0]}")
        for group, requirement in requirements():
            print(f"  {group:8} {requirement:32} {resolve(requirement, python)}", flush=True)


if __name__ == "__main__":
    main()
