"""What happens at places of the mean cycle next to the usual work: rests, saves, work of another kind."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import circular_runs
from epochcast.detector.methods.track.cycles.mean_cycle import FLOWS, MeanCycle

Bins = NDArray[np.bool_]

#: Two kinds of work are so many standard deviations apart (the halves of one noise: 2.7), and of what is no traffic the metric
#: that changes most does so by this much (logarithm).
APART, CHANGED = 5.5, 0.08

#: Another kind of work takes so many samples: one sample of less work may be half a rest.
SAMPLES = 3

#: A run of other work below this share of the longest one is noise; so is a run of rest.
SHORT = 0.3

#: At a boundary the device rests in half of the cycles, and in so many more than elsewhere in the cycle.
RESTS, MORE = 0.5, 0.3

#: Another kind of work takes this part of a step at least; among steps a rest, this part of the longest.
LEAST = 0.8

#: Steps of more bins show the rests within them.
FINE = 2

#: So few bins of other work next to a longer rest are its edges.
EDGE = 2

#: Less of a bin is no rest and no save; a rest that is no save counts in bins where it is in so many of the cycles.
PART, WAITS = 0.5, 0.3


@dataclass(frozen=True)
class CycleEvent:
    """What happens at one place of the mean cycle.

    Attributes:
        start, length: bins.
        other, rests, saves: bins of another kind of work, of rest, and of these of saving.
    """

    start: int
    length: int
    other: int
    rests: float
    saves: float

    @property
    def saved(self) -> bool:
        """Whether something is saved, for half a bin or more."""
        return self.saves >= PART

    @property
    def waits(self) -> float:
        """Bins of rest in which nothing is saved."""
        return max(0.0, self.rests - self.saves)


def events_of(mean: MeanCycle) -> list[CycleEvent]:
    """What happens in a mean cycle, in order of the bins."""
    n, step_bins = mean.rests.size, mean.step_bins
    base = float(np.median(mean.rests))
    usual = base if base < RESTS else 0.0
    # Where steps show, each rests for a part of it, and the first ones of all cycles together.
    rests = mean.rests >= (base + MORE if base < RESTS - MORE else RESTS)
    rests = _without_short(rests, 0.0, LEAST if round(step_bins) > FINE else SHORT)
    other = _other_work(mean)
    happens = other | rests
    events = []
    for first, last in circular_runs(happens):
        works = int(other[np.arange(first, last) % n].sum())
        # An event's rest is smeared where it is not always as far from the boundary.
        bins = np.arange(first - EDGE, last + EDGE) % n
        saved = float(mean.saves[bins].sum())
        waits = mean.rests[bins] - np.maximum(mean.saves[bins], usual)
        rested = saved + float(waits[waits >= WAITS].sum())
        if (works <= EDGE and works < rested / 3) or works * mean.bin_samples < SAMPLES:
            works = 0
        events.append(CycleEvent(first % n, last - first, works, rested if rested >= PART else 0.0, saved))
    events = [event for event in events if event.other or event.rests]
    largest = max(events, key=lambda event: (event.other, event.rests), default=None)
    events = [event for event in events if event.other or event.rests >= step_bins or event is largest]
    return sorted(events, key=lambda event: event.start)


def _other_work(mean: MeanCycle) -> Bins:
    """Bins of another kind of work, if it is clearly another."""
    changes = [
        abs(float(np.log(max(ratio, 1e-3)))) for name, ratio in mean.changes.items() if not any(flow in name for flow in FLOWS)
    ]
    other = _without_short(mean.other, LEAST * mean.step_bins, SHORT)
    return other & (max(changes, default=0.0) >= CHANGED and mean.apart >= APART)


def _without_short(mask: Bins, least: float, share: float) -> Bins:
    """A circle without the runs that are shorter than `least`, or than this share of the longest."""
    kept, runs = mask.copy(), circular_runs(mask)
    longest = max((last - first for first, last in runs), default=0)
    for first, last in runs:
        if last - first < max(least, share * longest):
            kept[np.arange(first, last) % mask.size] = False
    return kept
