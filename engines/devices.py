"""The devices that models can run on here, in the order that the `device` of the configuration counts them.

The text form is the reference's, which launchers read.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from audiocpp.engines.host import HostFacts
from audiocpp.engines.placement import BACKENDS

_NAME_KEYS = ("model name", "Model", "Hardware")
"""Of /proc/cpuinfo: x86 has the first, many ARM boards one of the others, some nothing."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One device of one backend; `index` counts from 0 within the backend.

    `type` is one of the reference's words: CPU, GPU, IGPU, ACCEL, META. Memory of a CPU is the machine's.
    `pci_id` is None for what is not on a PCI bus.
    """

    backend: str
    index: int
    name: str
    type: str
    memory_total_bytes: int
    memory_free_bytes: int
    pci_id: str | None = None

    @property
    def id(self) -> str:
        """`CPU:0`."""
        return f"{self.backend.upper()}:{self.index}"


def list_devices(host: HostFacts, root: Path = Path("/")) -> list[Device]:
    """The devices of every backend whose runtime is installed. `root` is where the machine's file system is mounted."""
    name = _processor_name(root) or host.arch
    return [
        Device(
            backend=backend.name,
            index=index,
            name=name,
            type="CPU",
            memory_total_bytes=host.memory_total_bytes,
            memory_free_bytes=host.memory_available_bytes,
        )
        for backend in BACKENDS
        if backend.runtime in host.runtimes
        for index in range(backend.devices)
    ]


def devices_text(devices: list[Device]) -> str:
    """As `--list-devices` prints it: a count, a line for each device, and how to choose one."""
    rows = [f'{device.id} "{_quotable(device.name)}" [{device.type}]' for device in devices]
    lines = [f"available_devices={len(devices)}", *rows, "select with: --backend <name> --device <index>"]
    return "\n".join(lines)


def devices_document(devices: list[Device]) -> dict[str, Any]:
    """As `GET /v1/devices` and `--list-devices --json` answer."""
    return {
        "object": "list",
        "data": [{"id": device.id, "object": "device", **msgspec.to_builtins(device)} for device in devices],
    }


def _processor_name(root: Path) -> str:
    text = _read(root / "proc/cpuinfo")
    for key in _NAME_KEYS:
        if found := re.search(rf"^{key}[ \t]*:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE):
            return found[1]
    return _read(root / "proc/device-tree/model").rstrip("\0")


def _read(file: Path) -> str:
    return file.read_text(errors="replace") if file.is_file() else ""


def _quotable(name: str) -> str:
    """On one line and without the quote that ends it."""
    return " ".join(name.replace('"', "'").split())
