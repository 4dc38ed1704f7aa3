"""Control groups for workers: on trees of files as the kernel lays them out, and once on a real version 1 kernel."""

import subprocess
import sys
from pathlib import Path

import pytest

from audiocpp.daemon.groups import PREFIX, WorkerGroup, WorkerGroups
from audiocpp.daemon.pressure import memory_pressure

MIB = 1 << 20


def tree(root: Path, groups: str, *folders: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for folder in folders:
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True)
    return root


def delegated(root: Path, controllers: str = "cpu memory pids") -> Path:
    """A service whose daemon has moved itself into a leaf, and whose controllers were handed on."""
    service = "system.slice/audiocppd.service"
    tree(root, f"0::/{service}/daemon\n", f"{service}/daemon")
    (root / "sys/fs/cgroup" / service / "cgroup.subtree_control").write_text(controllers)
    return root / "sys/fs/cgroup" / service


def test_a_worker_gets_a_group_beside_the_daemons_with_its_limit(tmp_path: Path) -> None:
    service = delegated(tmp_path)
    group = WorkerGroups(tmp_path).make(4242, 100 * MIB)
    assert group is not None
    assert group.folder == service / f"{PREFIX}4242"
    assert (group.folder / "memory.max").read_text() == str(100 * MIB)
    assert (group.folder / "cgroup.procs").read_text() == "4242"
    (group.folder / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\n")
    assert not group.has_killed()
    (group.folder / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n")
    assert group.has_killed()


def test_without_a_memory_controller_for_the_children_there_is_no_group(tmp_path: Path) -> None:
    delegated(tmp_path, controllers="cpu pids")
    groups = WorkerGroups(tmp_path)
    assert not groups.available
    assert groups.make(4242, MIB) is None


def test_version_one_is_used_where_version_two_is_not_delegated(tmp_path: Path) -> None:
    tree(tmp_path, "4:memory:/inner\n0::/\n", "memory/inner")
    (tmp_path / "sys/fs/cgroup/memory/inner/memory.limit_in_bytes").write_text("0")
    group = WorkerGroups(tmp_path).make(7, MIB)
    assert group is not None
    assert (group.folder / "memory.limit_in_bytes").read_text() == str(MIB)


def test_a_group_that_cannot_be_made_is_said_and_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = delegated(tmp_path)
    groups = WorkerGroups(tmp_path)
    (service / f"{PREFIX}9").write_text("in the way")
    assert groups.make(9, MIB) is None
    assert "the watcher is its limit" in caplog.text


def test_a_group_is_removed_with_its_process(tmp_path: Path) -> None:
    tree(tmp_path, "0::/\n", "memory/gone")
    folder = tmp_path / "sys/fs/cgroup/memory/gone"
    WorkerGroup(folder, 1).remove()
    assert not folder.exists()


def test_the_kernel_ends_a_process_that_passes_its_groups_limit() -> None:
    groups = WorkerGroups()
    if not groups.available:
        pytest.skip("no memory control group can be made here: neither delegated (version 2) nor root (version 1)")
    eater = subprocess.Popen(
        [sys.executable, "-c", "input(); blocks = [bytearray(b'x' * 2**20) for _ in range(400)]; print('survived')"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    group = groups.make(eater.pid, 100 * MIB)
    assert group is not None
    output, _ = eater.communicate("\n", timeout=60)
    assert "survived" not in output
    assert eater.returncode == -9
    assert group.has_killed()
    group.remove()
    assert not group.folder.exists()


@pytest.mark.parametrize(
    ("where", "expected"), [("sys/fs/cgroup/a/memory.pressure", 12.5), ("proc/pressure/memory", 3.0)]
)
def test_pressure_is_read_from_the_own_group_before_the_host(tmp_path: Path, where: str, expected: float) -> None:
    tree(tmp_path, "0::/a\n", "a")
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"some avg10={expected} avg60=0.00 avg300=0.00 total=5\nfull avg10=99.00 avg60=0 avg300=0 total=1\n"
    )
    assert memory_pressure(tmp_path) == expected


def test_a_kernel_without_pressure_figures_has_no_pressure(tmp_path: Path) -> None:
    assert memory_pressure(tree(tmp_path, "0::/\n")) == 0.0
