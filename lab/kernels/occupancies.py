"""The occupancy calculation in all its figures, for kernels that were profiled."""

from __future__ import annotations

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled import WARP_SIZE, GpuLimits, blocks_that_fit, grid_occupancy

RESOURCES = ("warps", "registers", "shared_memory", "blocks")
"""What can keep further blocks off an SM; of several that allow equally few, the first counts."""

LIMITERS = (*RESOURCES, "grid")
"""``grid``: there are too few blocks to fill the SMs with what they could hold."""


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
