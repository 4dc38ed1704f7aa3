"""What every bench is given."""

from dataclasses import dataclass

from bench.daemon_process import DaemonFolder
from bench.material import Material

RATIO_RUNS = 11
"""Runs of each side of a ratio. The median of the ratios of neighbours counts: they met the same machine, whose speed
changes by a third from one second to another."""

ABSOLUTE_RUNS = 10
"""Runs behind an absolute limit."""


@dataclass(frozen=True, slots=True)
class Bed:
    """`folder` is shared by all daemons of one run of the benches, so that the caches are warm after the first."""

    material: Material
    folder: DaemonFolder
