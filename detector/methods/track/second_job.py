"""Another job on the same device: what is left when the mean cycle of the first one is taken away."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.methods.track.grid import Grid

# All by choice, set by hand.

#: Intervals of the first job whose length is between these shares of the median are taken to be whole cycles.
SHORTEST, LONGEST = 0.5, 1.5

#: Periods this close are one job's: what is left of its own marks, or two halves of its cycle.
ALIKE = 1.08

#: Fewest boundaries of the slower cycle that decide; their phases are locked if they add up to this share of their number, at
#: one, two or three places of the faster cycle.
FEWEST, LOCKED, TURNS = 4, 0.75, (1, 2, 3)


def remainder(grid: Grid, boundaries: NDArray[np.float64]) -> Grid | None:
    """The grid less the median cycle between the boundaries, each stretched to its interval.

    Args:
        grid: m channels of n samples.
        boundaries: (k,) fractional samples of the grid, increasing.

    Returns:
        A grid over the same samples, None where too few cycles leave nothing to separate the jobs by.
    """
    lengths = np.diff(boundaries)
    usual = float(np.median(lengths))
    regular = np.flatnonzero((lengths > SHORTEST * usual) & (lengths < LONGEST * usual))
    if regular.size < FEWEST:
        return None
    phase = (np.arange(round(usual)) + 0.5) / round(usual)
    spans = [(boundaries[i], lengths[i]) for i in regular]
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


def drifts(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Whether two sets of boundaries are of two jobs: one job's cycles begin at the same places in each other, two jobs' drift.

    What recurs in every cycle of a job, or in every k-th, begins at few places of it: there the phases of the slower cycle's
    boundaries in the faster one add up. Those of two jobs go around, in steps of the periods' ratio.
    """
    fast, slow = sorted((first, second), key=lambda marks: float(np.median(np.diff(marks))))
    if float(np.median(np.diff(slow))) < ALIKE * float(np.median(np.diff(fast))):
        return False
    slow = slow[(slow >= fast[0]) & (slow <= fast[-1])]
    if slow.size < FEWEST:
        return False
    after = np.searchsorted(fast, slow).clip(1, fast.size - 1)
    phases = (slow - fast[after - 1]) / (fast[after] - fast[after - 1])
    return all(abs(np.exp(2j * np.pi * turns * phases).mean()) < LOCKED for turns in TURNS)
