"""What a reader of a profile gives, and the occupancy of its launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled import GpuLimits, limits_of
from epochcast.analyzer.errors import InputError
from epochcast.regressor.gpus import Catalog, Gpu
from lab.kernels.kernel_table import has_configuration, with_occupancy


@dataclass(frozen=True)
class KernelFile:
    """A profile's kernels.

    Attributes:
        format: what kind of file it is, for messages.
        table: the launches (``kernel_table.py``).
        limits: what the file itself says of its GPUs, by the name in column ``gpu``.
        passed_over: records that are no usable kernel launches, by kind.
    """

    format: str
    table: pd.DataFrame
    limits: Mapping[str, GpuLimits] = field(default_factory=dict)
    passed_over: Mapping[str, int] = field(default_factory=dict)


def occupancy_rows(file: KernelFile, name: str, catalog: Catalog, gpu: Gpu | None = None) -> pd.DataFrame:
    """The file's table with occupancy (``kernel_table.with_occupancy``).

    ``gpu`` takes the place of what the file says: the same launches on another GPU. Without it a GPU of which the file
    holds only the name is looked up in ``catalog``.

    Raises:
        InputError: the GPU is not known, or there is neither a launch that it can run nor a measured occupancy.
    """
    table, unmeasured = file.table, file.table["achieved"].isna().all()
    if unmeasured and not has_configuration(table).any():
        raise InputError(f"{name!r} holds no launch configuration; record it again with a newer profiler")
    if gpu is not None:
        table, limits = table.assign(gpu=gpu.name), {gpu.name: limits_of(gpu)}
    else:
        names = [title for title in table["gpu"].unique() if title]
        limits = {title: file.limits.get(title) or limits_of(catalog.resolve(title)) for title in names}
        if not limits:
            raise InputError(f"{name!r} does not name its GPU; name it with --gpu")
    rows = with_occupancy(table, limits)
    if unmeasured and rows["grid"].isna().all():
        raise InputError(
            f"none of the launches in {name!r} is possible on {', '.join(limits)}; name the GPU they ran on by --gpu"
        )
    return rows
