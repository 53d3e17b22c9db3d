"""Where the period changes within the trace: a slower checkpoint, another batch size, a neighbour on the machine."""

from dataclasses import replace
from itertools import product

import numpy as np

from .boundaries import EVEN, follow
from .cycle import Cycle, find
from .grid import Grid

#: Periods whose logarithms differ by this much are two; by more than that much, one of them is no epoch.
DIFFERENT, APART = float(np.log(1.25)), float(np.log(3.5))

#: The halves of the trace hint at a change if their best cycles have this quality.
GOOD = 0.3

#: Both parts must be right: the product of their confidences.
SURE = 0.6

#: The end of one part may lie behind the start of the other by this share of the shorter period.
OVERLAP = 0.15


def parts(grid: Grid, cycle: Cycle) -> tuple[Cycle, ...]:
    """The cycles of two parts of the grid where each has a period of its own, in the order of time; else none.

    Where the halves of the trace have different periods, what comes before and after a change is searched by itself. Nobody
    knows the place exactly: of the surest cycles before and after any place that it may have, those two that do not overlap.
    """
    if len(cycle.halves) < 2 or min(quality for _, quality in cycle.halves) < GOOD:
        return ()
    (early, _), (late, _) = cycle.halves
    if not DIFFERENT < abs(np.log(early / late)) < APART:
        return ()
    n = grid.values.shape[1]
    places = _places(grid, early, late)
    befores = [before for place in places if (before := find(grid.part(0, place))) is not None]
    afters = [
        replace(after, boundaries=after.boundaries + place)
        for place in places
        if (after := find(grid.part(place, n))) is not None
    ]
    pairs = [
        (before, after)
        for before, after in product(befores, afters)
        if before.confidence * after.confidence >= SURE
        and DIFFERENT < abs(np.log(before.period / after.period)) < APART
        and before.boundaries[-1] - after.boundaries[0] <= OVERLAP * min(before.period, after.period) / grid.step
    ]
    return max(pairs, key=lambda pair: pair[0].confidence * pair[1].confidence, default=())


def _places(grid: Grid, early: float, late: float) -> list[int]:
    """Samples at which the early cycle may end and the late one begin; first the middle, which the halves were cut at."""
    n = grid.values.shape[1]
    places = [n // 2]
    for period, step in ((early, 1), (late, -1)):
        track = follow(grid.values, period)
        if track is None:
            continue
        boundaries = (track.boundaries * track.size)[::step]
        even = np.abs(np.abs(np.diff(boundaries)) / period - 1) <= EVEN
        # The longest run of even intervals: where it ends on the side of the other half.
        edges = np.flatnonzero(np.diff(np.concatenate([[False], even, [False]]).astype(np.int8)))
        if edges.size:
            longest = int(np.argmax(edges[1::2] - edges[::2]))
            places.append(int(boundaries[edges[2 * longest + 1]]))
    return [place for place in dict.fromkeys(places) if 0 < place < n]
