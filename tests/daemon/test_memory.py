"""Memory limits read from trees of files as the kernel writes them, and this process's own memory."""

import os
from pathlib import Path

import pytest

from audiocpp.daemon.eviction import ByteLimit
from audiocpp.daemon.memory import MemoryGauge, memory_limits, private_bytes

MIB = 1 << 20


def machine(root: Path, *, available_mib: int, groups: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 9999999 kB\nMemAvailable: {available_mib * 1024} kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    return root


def group_v2(root: Path, path: str, **values: str) -> None:
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in values.items():
        (folder / name.replace("_", ".", 1)).write_text(text)


def test_without_groups_the_host_is_the_only_limit(tmp_path: Path) -> None:
    root = machine(tmp_path, available_mib=500, groups="0::/\n")
    assert memory_limits(root) == [ByteLimit("the host's free memory", 500 * MIB)]


def test_page_cache_counts_as_free_in_a_group(tmp_path: Path) -> None:
    root = machine(tmp_path, available_mib=5000, groups="0::/system.slice/audiocppd.service\n")
    group_v2(
        root,
        "system.slice/audiocppd.service",
        memory_max=str(1024 * MIB),
        memory_high="max",
        memory_current=str(1000 * MIB),
        memory_stat=f"anon {100 * MIB}\ninactive_file {800 * MIB}\nslab_reclaimable {50 * MIB}\n",
    )
    assert memory_limits(root)[1:] == [ByteLimit("control group /system.slice/audiocppd.service", 874 * MIB)]


def test_every_ancestor_and_the_lower_of_max_and_high_count(tmp_path: Path) -> None:
    root = machine(tmp_path, available_mib=5000, groups="0::/a/b\n")
    group_v2(root, "a/b", memory_max="max", memory_high=str(300 * MIB), memory_current=str(100 * MIB))
    group_v2(root, "a", memory_max=str(250 * MIB), memory_high=str(900 * MIB), memory_current=str(100 * MIB))
    assert memory_limits(root)[1:] == [
        ByteLimit("control group /a/b", 200 * MIB),
        ByteLimit("control group /a", 150 * MIB),
    ]


def test_a_group_never_gives_more_than_the_host_has(tmp_path: Path) -> None:
    root = machine(tmp_path, available_mib=100, groups="0::/a\n")
    group_v2(root, "a", memory_max=str(8000 * MIB), memory_current="0")
    assert memory_limits(root)[1] == ByteLimit("control group /a", 100 * MIB)


def test_version_one_groups_count_too_unless_unlimited(tmp_path: Path) -> None:
    root = machine(tmp_path, available_mib=5000, groups="4:cpu,memory:/limited/inner\n3:pids:/x\n")
    for name, limit in (("limited/inner", 0x7FFFFFFFFFFFF000), ("limited", 400 * MIB)):
        folder = root / "sys/fs/cgroup/memory" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.limit_in_bytes").write_text(str(limit))
        (folder / "memory.usage_in_bytes").write_text(str(350 * MIB))
        (folder / "memory.stat").write_text(f"total_inactive_file {200 * MIB}\n")
    assert memory_limits(root)[1:] == [ByteLimit("control group /limited", 250 * MIB)]


def test_private_memory_grows_with_what_a_process_allocates() -> None:
    before = private_bytes(os.getpid())
    block = bytearray(os.urandom(1)) * (32 * MIB)
    grown = private_bytes(os.getpid()) - before
    assert len(block) * 0.9 < grown < len(block) * 1.5


def test_a_gauge_follows_growth_without_measuring_again() -> None:
    gauge = MemoryGauge(os.getpid())
    before = gauge.exact()
    block = bytearray(os.urandom(1)) * (32 * MIB)
    assert len(block) * 0.9 < gauge.quick() - before < len(block) * 1.5
    assert abs(gauge.quick() - gauge.exact()) < 4 * MIB


def test_a_process_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ProcessLookupError):
        private_bytes(2**22 + 1)
