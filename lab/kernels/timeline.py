"""Occupancy over time next to NVML utilisation, from when kernels ran (the DNN-occu paper's section II-B and Fig. 2).

NVML utilisation is the share of time in which at least one kernel runs, however little of the GPU it fills. Occupancy is the
share of the warp slots that are filled, by launch configuration here (``calculator``'s ``grid``); 0 while nothing runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

BINS = 200
"""What a figure shows well."""

_NOTHING = 1e-9  # shares of time this small are sums of rounding errors


@dataclass(frozen=True)
class OccupancyTimeline:
    """One GPU over n bins of time; ratios 0..1, arrays of shape (n,).

    Attributes:
        edges: where bins begin and end [s], shape (n + 1,), by the recorder's clock.
        utilisation: share of the bin in which at least one kernel runs.
        unknown: share of the bin in which kernels run, and the occupancy of none of them is known.
        occupancy: mean over the rest of the bin, 0 while nothing runs; NaN where all of the bin is unknown.
        busy_occupancy: mean while kernels of known occupancy run; NaN where none does.
    """

    edges: NDArray[np.float64]
    utilisation: NDArray[np.float64]
    unknown: NDArray[np.float64]
    occupancy: NDArray[np.float64]
    busy_occupancy: NDArray[np.float64]

    @property
    def seconds(self) -> float:
        """From the first bin's begin to the last one's end."""
        return float(self.edges[-1] - self.edges[0])


def timelines(rows: pd.DataFrame, bins: int = 1) -> dict[tuple[str, int | None], OccupancyTimeline]:
    """A timeline of each GPU that ran kernels, by its name and index, from the first kernel's begin to the last one's end.

    ``rows`` are as ``with_occupancy`` gives them; formats without times have no timeline.
    """
    timed = _timed(rows)
    edges = np.linspace(timed["start"].min(), (timed["start"] + timed["duration"]).max(), bins + 1)
    each = {}
    for _, group in timed.groupby(["gpu", "device"], dropna=False):
        gpu, index = str(group["gpu"].iloc[0]), float(group["device"].iloc[0])
        each[gpu, None if math.isnan(index) else int(index)] = timeline(group, edges)
    return each


def timeline(rows: pd.DataFrame, edges: NDArray[np.float64]) -> OccupancyTimeline:
    """The timeline of one GPU.

    Kernels that run side by side, on several streams, fill as much as all of them together, 1 at most: each one's occupancy is
    what it would reach alone, so that their sum is an upper bound as they are.

    Args:
        rows: of one GPU, as ``with_occupancy`` gives them.
        edges: of the bins [s], ascending.
    """
    timed = _timed(rows)
    begins = timed["start"].to_numpy()
    ends = begins + timed["duration"].to_numpy()
    occupancy = timed["grid"].to_numpy()
    times = np.unique(np.concatenate([begins, ends, edges[:1]]))
    starting, ending = np.searchsorted(times, begins), np.searchsorted(times, ends)

    def at_once(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Summed weights of the kernels that run between consecutive times."""
        change = np.bincount(starting, weights, times.size) - np.bincount(ending, weights, times.size)
        return np.cumsum(change)[:-1]

    def share(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean over each bin of what has these values between the times."""
        until = np.append(0.0, np.cumsum(values * np.diff(times)))
        shares: NDArray[np.float64] = np.diff(np.interp(edges, times, until)) / np.diff(edges)
        return shares

    busy = at_once(np.ones_like(occupancy)) > 0
    known = at_once(np.isfinite(occupancy).astype(np.float64)) > 0
    filled = share(np.where(known, np.clip(at_once(np.nan_to_num(occupancy)), 0.0, 1.0), 0.0))
    utilisation, unknown = share(busy.astype(np.float64)), share((busy & ~known).astype(np.float64))
    return OccupancyTimeline(
        edges, np.clip(utilisation, 0.0, 1.0), unknown, _ratio(filled, 1 - unknown), _ratio(filled, utilisation - unknown)
    )


def _timed(rows: pd.DataFrame) -> pd.DataFrame:
    """Launches whose times are known."""
    return rows[rows["start"].notna() & (rows["duration"] > 0)]


def _ratio(filled: NDArray[np.float64], time: NDArray[np.float64]) -> NDArray[np.float64]:
    possible = time > _NOTHING
    return np.where(possible, np.clip(filled / np.where(possible, time, 1.0), 0.0, 1.0), np.nan)
