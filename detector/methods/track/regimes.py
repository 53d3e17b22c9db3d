"""Where the period changes within the trace: a slower checkpoint, another batch size, a neighbour on the machine."""

from dataclasses import replace
from itertools import product

import numpy as np

from epochcast.detector.confidence import ANSWERS
from epochcast.detector.filters import runs
from epochcast.detector.methods.track.boundaries import EVEN, follow
from epochcast.detector.methods.track.cycle import TrackedCycle, find
from epochcast.detector.methods.track.grid import Grid

# "By choice", or without a word: set by hand while the tracker was made; no sweep was kept. What they find together is measured
# by lab/speed/detector/comparison.py, and calibrate.py fits the confidence to it.

#: Periods whose logarithms differ by this much are two; by more than that much, one of them is the steps of the other.
#: By choice; the simulator's class `changing` has 1.3 to 2.5.
DIFFERENT, APART = float(np.log(1.25)), float(np.log(3.5))

#: The halves of the trace hint at a change if their best cycles have this quality. By choice.
GOOD = 0.3

#: The end of one part may lie behind the start of the other by this share of the shorter period. By choice.
OVERLAP = 0.15


def parts(grid: Grid, cycle: TrackedCycle) -> tuple[TrackedCycle, ...]:
    """The cycles of two parts of the grid where each has a period of its own, in the order of time; else none.

    Where the halves of the trace have different periods, and the whole one like them, what comes before and after a change is
    searched by itself. Nobody knows the place exactly: of the surest cycles before and after any place that it may have, those
    two that do not overlap.
    """
    if len(cycle.halves) < 2 or min(quality for _, quality in cycle.halves) < GOOD:
        return ()
    (early, _), (late, _) = cycle.halves
    overall = cycle.period / grid.step
    if (
        not DIFFERENT < abs(np.log(early / late)) < APART
        or np.log(max(early, late, overall) / min(early, late, overall)) > APART
    ):
        return ()
    n = grid.values.shape[1]
    befores, afters = _before(grid, n // 2), _after(grid, n // 2)
    sure = [half.period for half in befores + afters if half.confidence >= ANSWERS]
    # The change is in one half: the other half has a single period, different from the period of both.
    if not sure or (len(sure) > 1 and np.log(max(sure) / min(sure)) < DIFFERENT):
        return ()
    for place in _places(grid, early, late):
        befores, afters = befores + _before(grid, place), afters + _after(grid, place)
    pairs = [
        (before, after)
        for before, after in product(befores, afters)
        if before.confidence * after.confidence >= ANSWERS  # both must be right
        and DIFFERENT < abs(np.log(before.period / after.period)) < APART
        and before.boundaries[-1] - after.boundaries[0] <= OVERLAP * min(before.period, after.period) / grid.step
    ]
    return max(pairs, key=lambda pair: pair[0].confidence * pair[1].confidence, default=())


def _before(grid: Grid, place: int) -> list[TrackedCycle]:
    """The cycle of what comes before a sample, if there is any."""
    cycle = find(grid.part(0, place))
    return [] if cycle is None else [cycle]


def _after(grid: Grid, place: int) -> list[TrackedCycle]:
    """The cycle of what comes after a sample, if there is any."""
    cycle = find(grid.part(place, grid.values.shape[1]))
    return [] if cycle is None else [replace(cycle, boundaries=cycle.boundaries + place)]


def _places(grid: Grid, early: float, late: float) -> list[int]:
    """Samples at which the early cycle may end and the late one begin, next to the middle."""
    n = grid.values.shape[1]
    places: list[int] = []
    for period, step in ((early, 1), (late, -1)):
        track = follow(grid.values, period)
        if track is None:
            continue
        boundaries = (track.boundaries * track.size)[::step]
        even = np.abs(np.abs(np.diff(boundaries)) / period - 1) <= EVEN
        # The longest run of even intervals: where it ends on the side of the other half.
        starts, ends = runs(even)
        if starts.size:
            places.append(int(boundaries[ends[np.argmax(ends - starts)]]))
    return [place for place in dict.fromkeys(places) if 0 < place < n and place != n // 2]
