"""The list of devices, as launchers read it."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from audiocpp.engines.catalog import Catalog
from audiocpp.engines.devices import devices_document, devices_text, list_devices
from audiocpp.engines.host import HostFacts
from audiocpp.engines.placement import BACKENDS, choose_placement

HOST = HostFacts(
    cores=4,
    arch="aarch64",
    memory_total_bytes=8 << 30,
    memory_available_bytes=4 << 30,
    runtimes=frozenset({"onnxruntime"}),
)
ROW = re.compile(r'(\w+):(\d+) "([^"]*)" \[(CPU|GPU|IGPU|ACCEL|META)\]')


@dataclass
class Parsed:
    """What a launcher's regular expressions find."""

    count: int
    devices: list[tuple[str, str, str, str]]


def parsed(text: str) -> Parsed:
    first, *rows, last = text.splitlines()
    count = re.fullmatch(r"available_devices=(\d+)", first)
    matches = [ROW.fullmatch(row) for row in rows]
    assert count is not None
    assert all(matches)
    assert last.startswith("select with: --backend")
    return Parsed(int(count[1]), [(m[1], m[2], m[3], m[4]) for m in matches if m])


def cpuinfo(root: Path, text: str) -> Path:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 7B13\nprocessor\t: 1\nmodel name\t: AMD EPYC 7B13\n", "AMD EPYC 7B13"),
        ("processor\t: 0\n\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4\n", "Raspberry Pi 4"),
        ('model name\t: odd "name"\n', "odd 'name'"),
        ("processor\t: 0\n", "aarch64"),
        ("model name\t:\nflags : x\n", "aarch64"),
    ],
)
def test_the_text_has_the_form_that_launchers_read(tmp_path: Path, text: str, name: str) -> None:
    found = parsed(devices_text(list_devices(HOST, cpuinfo(tmp_path, text))))
    assert found == Parsed(1, [("CPU", "0", name, "CPU")])


def test_a_board_is_named_by_its_device_tree_where_the_processor_has_no_name(tmp_path: Path) -> None:
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/model").write_text("Orange Pi 5\0")
    assert [device.name for device in list_devices(HOST, tmp_path)] == ["Orange Pi 5"]


def test_without_a_runtime_there_is_no_device(tmp_path: Path) -> None:
    devices = list_devices(replace(HOST, runtimes=frozenset()), tmp_path)
    assert parsed(devices_text(devices)) == Parsed(0, [])


def test_every_listed_device_can_be_chosen_and_no_other(tmp_path: Path) -> None:
    spec = Catalog.load().family("silero_vad")
    devices = list_devices(HOST, tmp_path)
    assert devices
    for device in devices:
        chosen = choose_placement(spec, spec.default_package, HOST, wanted=device.backend, device=device.index)
        assert [(found.backend, found.device) for found in chosen.placements] == [(device.backend, device.index)]
    for backend in BACKENDS:
        beyond = sum(device.backend == backend.name for device in devices)
        assert not choose_placement(spec, spec.default_package, HOST, wanted=backend.name, device=beyond).placements, (
            backend.name
        )


def test_the_document_has_memory_in_bytes(tmp_path: Path) -> None:
    (row,) = devices_document(list_devices(HOST, cpuinfo(tmp_path, "model name : X\n")))["data"]
    assert row == {
        "id": "CPU:0",
        "object": "device",
        "backend": "cpu",
        "index": 0,
        "name": "X",
        "type": "CPU",
        "memory_total_bytes": 8 << 30,
        "memory_free_bytes": 4 << 30,
        "pci_id": None,
    }
