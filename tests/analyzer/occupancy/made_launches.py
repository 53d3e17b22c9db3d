"""Launch configurations made by hand, as tables and one by one."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import CONFIGURATION, GpuLimits
from lab.kernels.occupancies import occupancies


class Launch(NamedTuple):
    """A launch configuration; shared memory is static plus dynamic, bytes per block."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers_per_thread: int
    shared_memory: int


def table_of(launches: Sequence[Launch]) -> pd.DataFrame:
    """A row for each launch."""
    rows = [[*launch.grid, *launch.block, launch.registers_per_thread, launch.shared_memory] for launch in launches]
    return pd.DataFrame(rows, columns=list(CONFIGURATION), dtype=float)


def occupancy(launch: Launch, gpu: GpuLimits) -> pd.Series:
    """Occupancy of one launch."""
    return occupancies(table_of([launch]), gpu).iloc[0]
