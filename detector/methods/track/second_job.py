"""Another job on the same device: what is left when the mean cycle of the first one is taken away."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .grid import Grid

#: Intervals of the first job whose length lies between these shares of the median are taken to be whole cycles.
SHORTEST, LONGEST = 0.5, 1.5

#: Boundaries this close [share of the shorter period] coincide; a job of which so many coincide with another's is that job.
NEAR, COINCIDE = 0.1, 0.6

#: Periods this close are one job's: what is left of its own marks, or two halves of its cycle.
ALIKE = 1.08


def remainder(grid: Grid, boundaries: NDArray[np.float64]) -> Grid | None:
    """The grid less the median cycle between the boundaries, each stretched to its interval.

    Args:
        grid: m channels of n samples.
        boundaries: (k,) fractional samples of the grid, increasing.

    Returns:
        A grid over the same samples, None where fewer than four cycles leave nothing to tell the jobs apart by.
    """
    lengths = np.diff(boundaries)
    usual = float(np.median(lengths))
    whole = np.flatnonzero((lengths > SHORTEST * usual) & (lengths < LONGEST * usual))
    if whole.size < 4:
        return None
    phase = (np.arange(round(usual)) + 0.5) / round(usual)
    spans = [(boundaries[i], lengths[i]) for i in whole]
    index = np.arange(grid.values.shape[1])
    rest = grid.values.copy()
    for row in rest:
        cycle = np.median([np.interp(start + phase * length, index, row) for start, length in spans], axis=0)
        for start, length in spans:
            inside = slice(max(0, int(np.ceil(start))), min(index.size, int(np.ceil(start + length))))
            row[inside] -= np.interp((index[inside] - start) / length, phase, cycle)
    spread = rest.std(axis=1, keepdims=True)
    rest = rest[spread[:, 0] > 0] / spread[spread[:, 0] > 0]
    return replace(grid, values=rest) if rest.size else None


def same(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Whether two sets of boundaries are one job's: as far apart, or most of the slower ones coincide with faster ones."""
    fast, slow = sorted((first, second), key=lambda marks: float(np.median(np.diff(marks))))
    shorter, longer = float(np.median(np.diff(fast))), float(np.median(np.diff(slow)))
    if longer < ALIKE * shorter:
        return True
    near = NEAR * shorter
    slow = slow[(slow >= fast[0] - near) & (slow <= fast[-1] + near)]
    if not slow.size:
        return False
    after = np.searchsorted(fast, slow).clip(1, fast.size - 1)
    distance = np.minimum(np.abs(slow - fast[after - 1]), np.abs(slow - fast[after]))
    return bool(np.mean(distance <= near) > COINCIDE)
