"""Where the period changes within the trace: a slower checkpoint, another batch size, a neighbour on the machine."""

from dataclasses import replace

import numpy as np

from epochcast.detector.confidence import ANSWERS
from epochcast.detector.methods.track.cycle import TrackedCycle, again, find
from epochcast.detector.methods.track.fold import MULTIPLES
from epochcast.detector.methods.track.grid import Grid

#: Periods whose logarithms differ by this much are two; by more than that much, one of them is the steps of the other.
#: By choice; the simulator's class `changing` has 1.3 to 2.5.
DIFFERENT, APART = float(np.log(1.25)), float(np.log(3.5))

#: Of fewer cycles in half of a trace nobody can say whether they go on. By choice.
FEWEST_CYCLES = 3


def parts(grid: Grid, cycle: TrackedCycle) -> tuple[TrackedCycle, ...]:
    """The cycles of the two halves of the grid where each has a period of its own, in the order of time; else none.

    Nobody knows where the period changes: the half that holds the change has mostly one period, too.
    """
    period = cycle.period / grid.step
    middle = grid.values.shape[1] // 2
    if middle < FEWEST_CYCLES * period:
        return ()
    halves = grid.part(0, middle), grid.part(middle, grid.values.shape[1])
    if all(again(half, cycle.period) is not None for half in halves):
        return ()
    before, after = (find(half) for half in halves)
    if before is None or after is None or before.confidence * after.confidence < ANSWERS:  # both must be right
        return ()
    shorter = min(before.period, after.period)
    # Evidence adds: two cycles explain more than one does, or hold it as their steps.
    explain = before.evidence + after.evidence > cycle.evidence or shorter > MULTIPLES[-1] * cycle.period
    differ = DIFFERENT < abs(np.log(before.period / after.period)) < APART
    if not explain or not differ or shorter * MULTIPLES[-1] <= cycle.period:  # they are its steps
        return ()
    return before, replace(after, boundaries=after.boundaries + middle)
