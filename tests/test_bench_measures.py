"""The measuring parts of the benches: a wrong one would make every figure wrong."""

import math
import subprocess
import sys

import pytest
from bench.processes import ProcessTree
from bench.report import Figure
from bench.samples import alternate, percentile

SPINNING_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
try:
    print(child.pid, flush=True)
    sys.stdin.readline()
finally:
    child.kill()
    child.wait()
print("reaped", flush=True)
sys.stdin.readline()
"""


def test_both_sides_take_turns_and_swap_who_is_first():
    order = []
    ours, theirs = alternate(3, lambda: order.append("a") or len(order), lambda: order.append("b") or len(order))
    assert "".join(order) == "abbaab"
    assert (ours, theirs) == ([1, 4, 5], [2, 3, 6])


@pytest.mark.parametrize(("percent", "expected"), [(50, 5), (95, 10), (90, 9), (1, 1)])
def test_percentile_is_the_value_that_so_many_do_not_exceed(percent, expected):
    assert percentile([10, 1, 2, 3, 4, 5, 6, 7, 8, 9], percent) == expected


@pytest.mark.parametrize(
    ("value", "limit", "missed"), [(1.0, 1.0, False), (1.01, 1.0, True), (math.nan, 1.0, True), (9.0, None, False)]
)
def test_a_figure_misses_its_limit_only_above_it_or_without_a_number(value, limit, missed):
    assert Figure(name="x", value=value, limit=limit, samples=1).missed is missed


def test_a_process_tree_counts_its_children_and_does_not_forget_those_that_ended():
    command = [sys.executable, "-c", SPINNING_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        tree = ProcessTree(parent.pid)
        assert tree.pids() == [parent.pid, child]
        assert tree.memory().resident > max(memory.resident for memory in tree.memory_by_process().values())
        while ProcessTree(child).cpu_s() < 0.1:
            pass
        assert tree.cpu_s() >= 0.1
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "reaped\n"
        assert tree.pids() == [parent.pid]
        assert tree.cpu_s() >= 0.1
