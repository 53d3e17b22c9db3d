"""``ncu.csv`` of ``occupancy_bench.py``: warps that the hardware counted, launch by launch.

These are the labels of the DNN-occu paper. Sizes, step times and memory stand in ``occupancy.csv`` beside the file.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from .....regressor import Catalog, Gpu
from ....csv_text import parse_csv
from ....errors import InputError
from ....gpu_scripts.occupancy_bench import CONFIGURATIONS
from .. import kernel_files
from ..kernel_files.kernel_file import occupancy_rows
from ..launch.kernel_table import summarise
from ..points import TARGETS, Reading, table_text
from . import occupancy_bench

NAME = "ncu.csv of occupancy_bench.py"


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has the columns of this file."""
    return {"key", "kernel", "achieved_pct", "duration_us"}.issubset(table.columns)


def read(table: pd.DataFrame, path: Path, catalog: Catalog, gpu: Gpu | None) -> Reading:
    """One row per configuration that ncu profiled and that was measured without it too.

    Raises:
        InputError: ``occupancy.csv`` is not there, no configuration is in both, or as its reader.
    """
    beside = path.parent / CONFIGURATIONS
    if not beside.is_file():
        raise InputError(f"{str(path)!r} tells no sizes of its networks; put {CONFIGURATIONS} of the same run beside it")
    sizes = parse_csv(table_text(beside), str(beside))
    if not occupancy_bench.recognises(sizes):
        raise InputError(f"{str(beside)!r} beside {path.name!r} is none of occupancy_bench.py; put that of the same run there")
    measured = occupancy_bench.read(sizes, beside, catalog, gpu).points.set_index("key", drop=False)
    rows = occupancy_rows(kernel_files.read_any(path), str(path), catalog, gpu)
    found, without = [], 0
    for key, launches in rows.groupby("workload"):
        achieved = summarise(launches).achieved
        if achieved is None or key not in measured.index:
            without += 1
            continue
        labels = {target: getattr(achieved, target) for target in TARGETS}
        found.append({**measured.loc[str(key)], **labels, "kernels": launches["count"].sum(), "labels": "ncu"})
    if not found:
        raise InputError(f"no configuration of {str(path)!r} is in {CONFIGURATIONS} beside it; put that of the same run there")
    return Reading(pd.DataFrame(found), {f"its configuration is not in {CONFIGURATIONS}": without} if without else {})
