"""What a reader of a profile gives, and the occupancy of its launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from .....regressor.gpus import Catalog, Gpu
from ....errors import InputError
from ..launch.gpu_limits import GpuLimits, limits_of
from ..launch.kernel_table import NO_LAUNCH_CONFIGURATION, count_skipped, with_occupancy


@dataclass(frozen=True)
class KernelFile:
    """A profile's kernels.

    Attributes:
        format: what kind of file it is, for messages.
        table: the launches (``launch/kernel_table.py``).
        limits: what the file itself tells of its GPUs, by the name in column ``gpu``.
        passed_over: records that are no usable kernel launches, by kind.
    """

    format: str
    table: pd.DataFrame
    limits: Mapping[str, GpuLimits] = field(default_factory=dict)
    passed_over: Mapping[str, int] = field(default_factory=dict)


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
