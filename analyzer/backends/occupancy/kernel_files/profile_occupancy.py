"""Occupancy of the launches in a profile, on the GPU that it tells or that the user names."""

from __future__ import annotations

import pandas as pd

from .....regressor.gpus import Catalog, Gpu
from ....errors import InputError
from ..launch.gpu_limits import limits_of
from ..launch.kernel_table import NO_LAUNCH_CONFIGURATION, count_skipped, with_occupancy
from .kernel_file import KernelFile


def occupancy_rows(file: KernelFile, name: str, catalog: Catalog, gpu: Gpu | None = None) -> pd.DataFrame:
    """The file's table with occupancy (``kernel_table.with_occupancy``).

    ``gpu`` takes the place of whatever the file tells: the same launches on another GPU. Without it a GPU of which the file
    tells no more than the name is looked up in ``catalog``.

    Raises:
        InputError: the GPU is not known, or there is neither a launch that it can run nor a measured occupancy.
    """
    if gpu is not None:
        table, limits = file.table.assign(gpu=gpu.name), {gpu.name: limits_of(gpu)}
    else:
        names = [str(one) for one in file.table["gpu"].unique() if one]
        if not names:
            raise InputError(f"{name!r} does not tell which GPU it ran on; name it by --gpu")
        table = file.table
        limits = {one: file.limits[one] if one in file.limits else limits_of(catalog.resolve(one)) for one in names}
    rows = with_occupancy(table, limits)
    if rows["grid"].isna().all() and rows["achieved"].isna().all():
        skipped = count_skipped(rows)
        if set(skipped) == {NO_LAUNCH_CONFIGURATION}:
            raise InputError(f"{name!r} holds no launch configuration; record it again with a newer profiler, or by ncu")
        raise InputError(
            f"none of the launches in {name!r} is possible on {', '.join(limits)}; name the GPU they ran on by --gpu"
        )
    return rows
