"""``occupancy.csv`` and ``sweep.csv`` of ``occupancy_bench.py``.

Which GPU it was stands in ``meta.json`` beside the file. Where ``kernels.csv.gz`` lies there too, the labels are calculated
anew from its launches, so that one calculation makes the labels of all files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from .....regressor import Catalog, Gpu
from ....gpu_scripts.occupancy_bench import KERNELS, device_name, measured_configurations
from ....gpu_scripts.occupancy_bench import has_configurations as recognises
from .. import kernel_files
from ..kernel_files.kernel_file import occupancy_rows
from ..launch.kernel_table import summarise
from ..points import TARGETS, Reading

__all__ = ["NAME", "read", "recognises"]

NAME = "occupancy.csv or sweep.csv of occupancy_bench.py"

_NOTABLE = 0.005  # of occupancy; the file's figures are rounded to 1e-6


def read(table: pd.DataFrame, path: Path, catalog: Catalog, gpu: Gpu | None) -> Reading:
    """The rows that were measured, with their ``key``; the others, such as those that ran out of memory, are counted.

    Raises:
        InputError: nothing was measured, or the GPU is not told or not known.
    """
    rows, left_out = measured_configurations(table, str(path))
    points = rows.assign(gpu=(gpu or catalog.resolve(device_name(path))).name, labels="launch_config", precision="fp32")
    points, notes = _calculated_anew(points, path, catalog, gpu)
    return Reading(points, left_out, notes)


def _calculated_anew(
    points: pd.DataFrame, path: Path, catalog: Catalog, gpu: Gpu | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Labels from the launches in the file beside this one, of rows of which it holds all launches."""
    beside = path.parent / KERNELS
    if not beside.is_file():
        return points, ()
    rows = occupancy_rows(kernel_files.read_any(beside), str(beside), catalog, gpu)
    found = {str(key): summarise(launches) for key, launches in rows.groupby("workload")}
    anew = pd.DataFrame(
        {target: [getattr(one.grid, target) for one in found.values()] for target in TARGETS}, index=pd.Index(found)
    )
    launches = points["key"].map({key: one.launches for key, one in found.items()})
    whole = launches.eq(points["kernels"])
    labels = anew.reindex(points["key"]).set_axis(points.index)[whole]
    apart = float(np.abs(labels.to_numpy() - points.loc[whole, list(TARGETS)].to_numpy()).max(initial=0.0))
    points = points.assign(**{target: labels[target].reindex(points.index).fillna(points[target]) for target in TARGETS})
    if apart <= _NOTABLE:
        return points, ()
    return points, (
        f"occupancies were calculated anew from {KERNELS}; those in {path.name} differ by up to {100 * apart:.1f} points",
    )
