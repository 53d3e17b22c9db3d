"""The table of kernel launches that readers of profiles give, and the occupancy of a whole run summed up from it.

The mean of ``grid`` over launches is launch-config occupancy; what ncu measured is ``achieved`` here: the two are never mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled import (
    CONFIGURATION,
    WARP_SIZE,
    GpuLimits,
    blocks_that_fit,
    grid_occupancy,
)

_TEXTS = ("workload", "gpu", "kernel")

COLUMNS = (*_TEXTS, "device", *CONFIGURATION, "start", "duration", "count", "achieved", "theoretical", "estimate")
"""Columns of a kernel table; one row per launch, or per ``count`` launches alike.

workload: what the launch belongs to, where a file holds several; empty: one for all.
gpu: name by the driver; empty: not known. device: index of the GPU, NaN if not known.
kernel: name. The launch configuration (``CONFIGURATION``): whole numbers, shared memory in bytes per block; NaN: not known.
start: seconds by the recorder's clock since the first kernel of the file began, on any GPU; NaN: not known.
duration: seconds of one launch. count: launches.
achieved, theoretical: ncu's measured and theoretical occupancy, 0..1. estimate: Kineto's, 0..1 in steps of 0.01. NaN: none.
"""

RESOURCES = ("warps", "registers", "shared_memory", "blocks")
"""What can keep further blocks off an SM; of several that allow equally few, the first counts."""

LIMITERS = (*RESOURCES, "grid")
"""``grid``: there are too few blocks to fill the SMs with what they could hold."""

NO_GPU = "gpu_not_known"
NO_LAUNCH_CONFIGURATION = "no_launch_configuration"
IMPOSSIBLE_LAUNCH = "impossible_launch"


def kernel_table(**columns: Any) -> pd.DataFrame:
    """A kernel table of these columns, each given as what a DataFrame takes; those not given are empty, ``count`` 1."""
    table = pd.DataFrame({**dict.fromkeys(_TEXTS, ""), "count": 1.0, **columns}).reindex(columns=COLUMNS)
    numbers = [name for name in COLUMNS if name not in _TEXTS]
    return table.astype(dict.fromkeys(numbers, np.float64)).reset_index(drop=True)


def has_configuration(table: pd.DataFrame) -> pd.Series:
    """Which rows say how the kernel was launched; kernels of CUDA graphs may have a grid and blocks of 0."""
    sizes = table[list(CONFIGURATION)]
    return sizes.notna().all(axis=1) & (sizes.iloc[:, :6] != 0).all(axis=1)


def with_occupancy(table: pd.DataFrame, limits: Mapping[str, GpuLimits]) -> pd.DataFrame:
    """The table with the columns of :func:`occupancies`, ``sm_count``, and ``skipped``: why a row has no occupancy.

    ``limits`` are by the name in column ``gpu``, of at least one row; rows of other GPUs have no occupancy.
    """
    known = table["gpu"].isin(list(limits))
    results = pd.concat([occupancies(rows, limits[str(gpu)]) for gpu, rows in table[known].groupby("gpu")])
    rows = table.join(results)
    skipped = np.select(
        [rows["grid"].notna(), ~has_configuration(table), ~known], ["", NO_LAUNCH_CONFIGURATION, NO_GPU], IMPOSSIBLE_LAUNCH
    )
    return rows.assign(sm_count=table["gpu"].map({name: gpu.sm_count for name, gpu in limits.items()}), skipped=skipped)


@dataclass(frozen=True)
class Aggregate:
    """A ratio 0..1 over launches.

    Attributes:
        mean: over launches.
        time_mean: weighted by duration; NaN without durations.
        max: of any launch.
    """

    mean: float
    time_mean: float
    max: float


@dataclass(frozen=True)
class OccupancySummary:
    """Occupancy of a run.

    Attributes:
        launches: kernel launches whose occupancy is known.
        seconds: their summed durations; where kernels ran side by side, more than the GPU was busy. NaN: not known.
        grid, active, limit: by ``calculator``; NaN where no launch configuration is known.
        achieved, theoretical: ncu's, over the launches that it profiled; None: not from ncu.
        tail_efficiency: time-weighted mean.
        limiters: share of ``seconds`` by what limits occupancy; empty without durations.
    """

    launches: int
    seconds: float
    grid: Aggregate
    active: Aggregate
    limit: Aggregate
    achieved: Aggregate | None
    theoretical: Aggregate | None
    tail_efficiency: float
    limiters: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """The main ratio's aggregates at the top, the others under their names."""
        answer = asdict(self)
        return {"launches": answer.pop("launches"), "seconds": answer.pop("seconds"), **answer.pop("grid"), **answer}


def summarise(rows: pd.DataFrame) -> OccupancySummary:
    """Sum up rows that :func:`with_occupancy` gave."""
    known = rows[rows["grid"].notna()]
    seconds = known["duration"] * known["count"]
    total = float(seconds.sum(min_count=1))
    by_limiter = seconds.groupby(known["limiter"]).sum()
    return OccupancySummary(
        launches=int(known["count"].sum()),
        seconds=total,
        grid=_aggregate(known, "grid"),
        active=_aggregate(known, "active"),
        limit=_aggregate(known, "limit"),
        achieved=_measured(rows, "achieved"),
        theoretical=_measured(rows, "theoretical"),
        tail_efficiency=_aggregate(known, "tail_efficiency").time_mean,
        limiters={name: float(by_limiter[name] / total) for name in LIMITERS if total > 0 and name in by_limiter},
    )


def _measured(rows: pd.DataFrame, name: str) -> Aggregate | None:
    measured = rows[rows[name].notna()]
    return None if measured.empty else _aggregate(measured, name)


def _aggregate(rows: pd.DataFrame, name: str) -> Aggregate:
    values, count = rows[name], rows["count"]
    return Aggregate(_mean(values, count), _mean(values, count * rows["duration"]), float(values.max()))


def _mean(values: pd.Series, weights: pd.Series) -> float:
    """Weighted mean over the rows that have a weight; NaN if there is none."""
    weights = weights.fillna(0.0)
    return float(np.average(values, weights=weights)) if weights.sum() > 0 else float("nan")


def occupancies(table: pd.DataFrame, gpu: GpuLimits) -> pd.DataFrame:
    """Occupancy of every row of a table of launch configurations; a row that the GPU cannot run is NaN throughout.

    Ratios 0..1: ``grid``, the mean over all SMs; ``active``, of an SM that has work (ncu's achieved occupancy is the measured
    counterpart); ``limit``, for any grid (ncu calls it theoretical). ``resident_blocks``: of an SM at once.
    ``tail_efficiency``: the share of the block slots that are used until the last wave ends, if all blocks take equally long.
    ``limiter``: one of :data:`LIMITERS`.
    """
    fits = blocks_that_fit(table, gpu)
    possible = fits.notna().all(axis=1)
    resident = fits.min(axis=1, skipna=False)
    warps = np.ceil(table[["block_x", "block_y", "block_z"]].astype(float).prod(axis=1) / WARP_SIZE)
    per_sm = table[["grid_x", "grid_y", "grid_z"]].astype(float).prod(axis=1) / gpu.sm_count
    waves = per_sm / resident
    least = fits[list(RESOURCES)].where(possible, 0.0).idxmin(axis=1) if len(fits) else pd.Series(dtype=object)
    return pd.DataFrame(
        {
            "grid": grid_occupancy(table, gpu),
            "active": np.minimum(resident, np.ceil(per_sm)) * warps / gpu.max_warps,
            "limit": resident * warps / gpu.max_warps,
            "resident_blocks": resident,
            "tail_efficiency": waves / np.ceil(waves),
            "limiter": least.where(per_sm >= resident, "grid").where(possible),
        },
        index=table.index,
    )
