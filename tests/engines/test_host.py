"""Facts read from kernel files laid out in a folder."""

from pathlib import Path

import pytest

from audiocpp.engines.host import HostFacts, read_host

MEMINFO = "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\nHugePages_Total:       0\n"


def put(root: Path, **files: str) -> None:
    for name, content in ({"proc/meminfo": MEMINFO} | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def facts(root: Path, usable_cpus: int = 8) -> HostFacts:
    return read_host(root, usable_cpus=usable_cpus, find=lambda _: None)


def test_memory_is_read_in_bytes(tmp_path: Path) -> None:
    put(tmp_path)
    host = facts(tmp_path)
    assert (host.memory_total_bytes, host.memory_available_bytes) == (16 << 20, 8 << 20)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/app\n", "sys/fs/cgroup/app/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/app\n", "sys/fs/cgroup/app/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/app\n", "sys/fs/cgroup/app/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/app\n", "sys/fs/cgroup/app/cpu.max": "10000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/slice/app\n", "sys/fs/cgroup/slice/cpu.max": "300000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/of/the/host\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/app\n4:memory:/\n",
                "sys/fs/cgroup/cpu/app/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/app/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/app\n",
                "sys/fs/cgroup/cpu/app/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/app/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
    ids=["no groups", "no quota", "two", "one and a half", "a tenth", "of the parent", "container", "v1", "v1 none"],
)
def test_cores_are_limited_by_the_quota_of_every_group_above(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    put(tmp_path, **files)
    assert facts(tmp_path).cores == cores


def test_cores_are_limited_by_affinity(tmp_path: Path) -> None:
    put(tmp_path, **{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "800000 100000\n"})
    assert facts(tmp_path, usable_cpus=3).cores == 3


@pytest.mark.parametrize(
    ("compatible", "soc"),
    [("radxa,rock-5b\0rockchip,rk3588\0", "rk3588"), ("raspberrypi,5-model-b\0brcm,bcm2712\0", "bcm2712")],
)
def test_the_chip_is_the_last_name_of_the_device_tree(tmp_path: Path, compatible: str, soc: str) -> None:
    put(tmp_path, **{"proc/device-tree/compatible": compatible})
    assert facts(tmp_path).soc == soc


def test_without_a_device_tree_no_chip_is_named(tmp_path: Path) -> None:
    put(tmp_path)
    assert facts(tmp_path).soc is None


@pytest.mark.parametrize(("found", "runtimes"), [(object(), {"onnxruntime"}), (None, set())])
def test_runtimes_are_those_the_import_system_finds(tmp_path: Path, found: object, runtimes: set[str]) -> None:
    put(tmp_path)
    assert read_host(tmp_path, usable_cpus=1, find=lambda _: found).runtimes == runtimes


def test_this_machine_can_be_read() -> None:
    host = read_host()
    assert host.cores >= 1
    assert 0 < host.memory_available_bytes <= host.memory_total_bytes
