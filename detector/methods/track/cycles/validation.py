"""Whether each cycle ends in work of another level, as a validation does: the only mark of an epoch in slow readings."""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import circular_runs
from epochcast.detector.methods.track.cycles.mean_cycle import places_in
from epochcast.detector.methods.track.template import minority
from epochcast.detector.signals import Signals

#: Metrics of work whose level a validation changes, the clearest first. Not power: it falls as far while a GPU waits.
WORK = ("memory_utilization", "dram_active", "gpu_utilization", "sm_active")

#: A validation is there in nearly every cycle: its mean difference is so many standard errors from none. By choice; real
#: cycles have 7 and more.
CLEAR = 6.0

#: Share of its epoch that a validation takes: a tenth of the data, forward only and so at three times the speed, is 3 %, with
#: its loading twice as much. What takes less of a cycle may come after several epochs. Real traces: evaluations after every
#: fourth epoch have 4 %, validations 9 to 29 %.
LEAST, MOST = 1 / 16, 1 / 3

#: It changes the level by this much (logarithm) at least and at most: what changes it more is a rest.
CHANGED, RESTED = 0.08, 0.9

#: Bins of a cycle, at most, and of a validation, at least: in one reading per cycle nobody sees how long it is.
BINS, FEWEST_BINS = 48, 2


def validation_of(signals: Signals, boundaries: NDArray[np.float64]) -> str | None:
    """What shows a validation at the boundary of cycles [unix s], (k,), k >= 3; None where nothing does."""
    interval = float(np.median(np.diff(signals.time)))
    bins = int(min(BINS, float(np.median(np.diff(boundaries))) / interval))
    if boundaries.size < 4 or bins < 2 * FEWEST_BINS:
        return None
    cycle, place, inside = places_in(signals.time, boundaries, bins)
    for name in WORK:
        values = signals.metrics.get(name)
        if values is None:
            continue
        mean = np.bincount(place[inside], values[inside], bins) / np.maximum(1, np.bincount(place[inside], minlength=bins))
        rare = minority(mean)
        first, last = max(circular_runs(rare), key=lambda run: run[1] - run[0], default=(0, 0))
        if last - first < FEWEST_BINS or not LEAST <= (last - first) / bins <= MOST:
            continue
        during, usual = np.isin(place, np.arange(first, last) % bins) & inside, inside & ~rare[place]
        many = [np.bincount(cycle[part], minlength=boundaries.size) for part in (during, usual)]
        sums = [np.bincount(cycle[part], values[part], boundaries.size) for part in (during, usual)]
        both = (many[0] > 0) & (many[1] > 0)
        apart = sums[0][both] / many[0][both] - sums[1][both] / many[1][both]
        if apart.size > 2 and abs(apart.mean()) > CLEAR * apart.std(ddof=1) / np.sqrt(apart.size) > 0:
            ratio = float(values[during].mean() / max(1e-12, float(values[usual].mean())))
            if abs(np.log(max(ratio, 1e-3))) > RESTED:
                return None
            if abs(np.log(ratio)) < CHANGED:
                continue
            return f"for {(last - first) / bins:.0%} of it {name} is {ratio:.2g} times the usual, as during a validation"
    return None
