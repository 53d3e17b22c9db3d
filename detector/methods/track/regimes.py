"""Where the period changes within the trace: a slower checkpoint, another batch size, a neighbour on the machine."""

from dataclasses import replace
from itertools import product

import numpy as np

from epochcast.detector.confidence import ANSWERS
from epochcast.detector.filters import runs
from epochcast.detector.methods.track.boundaries import EVEN, follow
from epochcast.detector.methods.track.cycle import TrackedCycle, again, find
from epochcast.detector.methods.track.fold import MULTIPLES
from epochcast.detector.methods.track.grid import Grid

#: Periods whose logarithms differ by this much are two; by more than that much, one of them is the steps of the other.
#: By choice; the simulator's class `changing` has 1.3 to 2.5.
DIFFERENT, APART = float(np.log(1.25)), float(np.log(3.5))

#: Of fewer cycles in half of a trace nobody can say whether they go on. By choice.
FEWEST_CYCLES = 3

#: The end of one part may lie behind the start of the other by this share of the shorter period. By choice.
OVERLAP = 0.15


def parts(grid: Grid, cycle: TrackedCycle) -> tuple[TrackedCycle, ...]:
    """The cycles of two parts of the grid where each has a period of its own, in the order of time; else none.

    Where the cycle does not hold in both halves of the trace, what comes before and after a change is searched by itself.
    Nobody knows the place exactly: of the surest cycles before and after any place that it may have, those two that do not
    overlap.
    """
    n, period = grid.values.shape[1], cycle.period / grid.step
    middle = n // 2
    if middle < FEWEST_CYCLES * period:
        return ()
    if all(again(half, cycle.period) is not None for half in (grid.part(0, middle), grid.part(middle, n))):
        return ()
    befores, afters = _cycles(grid, 0, middle), _cycles(grid, middle, n)
    sure = [half.period for half in befores + afters if half.confidence >= ANSWERS]
    # The change is in one half: the other half has a single period, different from the period of both.
    if not sure or (len(sure) > 1 and np.log(max(sure) / min(sure)) < DIFFERENT):
        return ()
    for place in _places(grid, *(half.period / grid.step for half in (*befores, *afters))):
        befores, afters = befores + _cycles(grid, 0, place), afters + _cycles(grid, place, n)
    pairs = [
        (before, after)
        for before, after in product(befores, afters)
        if before.confidence * after.confidence >= ANSWERS  # both must be right
        # Evidence adds: two cycles explain more than one does, or hold it as their steps.
        and (
            before.evidence + after.evidence > cycle.evidence or min(before.period, after.period) > MULTIPLES[-1] * cycle.period
        )
        and min(before.period, after.period) * MULTIPLES[-1] > cycle.period  # else they are its steps
        and DIFFERENT < abs(np.log(before.period / after.period)) < APART
        and before.boundaries[-1] - after.boundaries[0] <= OVERLAP * min(before.period, after.period) / grid.step
    ]
    return max(pairs, key=lambda pair: pair[0].confidence * pair[1].confidence, default=())


def _cycles(grid: Grid, first: int, last: int) -> list[TrackedCycle]:
    """The cycle of a part of the grid, if there is any."""
    cycle = find(grid.part(first, last))
    return [] if cycle is None else [replace(cycle, boundaries=cycle.boundaries + first)]


def _places(grid: Grid, *periods: float) -> list[int]:
    """Samples at which a cycle ends or begins to be even, next to the middle."""
    n = grid.values.shape[1]
    places: list[int] = []
    for period in periods:
        track = follow(grid.values, period)
        if track is None:
            continue
        boundaries = track.boundaries * track.size
        starts, ends = runs(np.abs(np.diff(boundaries) / period - 1) <= EVEN)
        if starts.size:
            longest = int(np.argmax(ends - starts))
            places += [int(boundaries[starts[longest]]), int(boundaries[ends[longest]])]
    return [place for place in dict.fromkeys(places) if 0.1 * n < place < 0.9 * n and place != n // 2]
