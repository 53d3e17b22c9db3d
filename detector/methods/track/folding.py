"""Strict cycles of few readings: folding at the readings' own times sees what an interpolated curve has lost.

A cycle of 7.66 s that is read every 2 s shows another part of itself each time; folded at the right period the readings
fall into place (epoch folding: Leahy et al., Astrophysical Journal 266, 1983). A cycle of less than three readings is not
looked for; read at even times it looks like a longer one, and the readings do not show it.

All lengths are in samples of the trace.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import best_third, running_mean, running_median, runs
from epochcast.detector.methods.track.grid import Grid
from epochcast.detector.methods.track.template import boundary_phase

# "By choice", or without a word: set by hand while the tracker was made; no sweep was kept. What they find together is measured
# by lab/speed/detector/comparison.py, and calibrate.py fits the confidence to it.

#: Periods that are tried. Decision 0011: fewer than three readings are an alias of anything; 24 by choice.
SHORTEST, LONGEST = 3.0, 24.0

#: Bins per cycle, most readings folded at once, periods folded at once. By choice.
BINS, MOST_READINGS, BLOCK = 8, 1200, 256

#: Fewest readings and fewest cycles: in fewer, aliases of faster cycles fold as well by chance. By choice.
READINGS, CYCLES = 24, 4

#: The cycle explains this share of the variance, and n times the share is so much; noise reaches 18 or so somewhere in the
#: range, and the range between is for the confidence to judge. By choice.
EXPLAINED, SIGNIFICANT = 0.1, 8.0

#: A fraction of the period that explains this share of what the period does is the cycle itself. By choice.
FRACTION = 0.7

#: Twice or three times the period explains so much more, in bins as wide: the cycles differ by turns, and twice the period is
#: one. By choice.
TURNS = 1.6

#: The cycle runs for this share of the readings. By choice.
COVERED = 0.4

#: The cycle counts as running where readings match it this well over six cycles. By choice.
RUNNING, WINDOW_CYCLES = 0.15, 6


@dataclass(frozen=True)
class Folded:
    """A strict cycle.

    Attributes:
        period: samples of the trace.
        boundaries: (k,) samples of the trace from the first, even, where the cycle starts again.
        explained: share of the readings' variance that the mean cycle explains, less what bins explain of noise.
        significance: `explained` times the number of readings; pure noise stays below about 20.
        ahead: `explained` relative to the best period that is not a simple fraction or multiple.
        turns: what twice or three times the period explains, in bins as wide, relative to `explained`.
        covered: share of the readings over which the cycle runs.
        metrics: how many the cycle was looked for in.
        looked_at: share of the readings that were folded.
    """

    period: float
    boundaries: NDArray[np.float64]
    explained: float
    significance: float
    ahead: float
    turns: float
    covered: float
    metrics: int
    looked_at: float

    @property
    def cycles(self) -> int:
        """How many cycles there are."""
        return self.boundaries.size - 1


def fold(grid: Grid) -> Folded | None:
    """The period between 3 and 24 readings at which they fold best; None where nothing folds beyond chance."""
    time, residual = _readings(grid)
    # The middle of a longer trace does not speak for all of it; where there are many, the tracker sees cycles of few samples.
    if not READINGS <= time.size <= grid.readings.size <= 2 * MOST_READINGS or not residual.size:
        return None
    span = float(time[-1] - time[0])
    slowest, fastest = max(1 / LONGEST, CYCLES / span), 1 / SHORTEST
    if slowest >= fastest:
        return None
    frequencies = np.arange(slowest, fastest, 1 / (4 * span))  # a quarter by choice
    blocks = [frequencies[i : i + BLOCK] for i in range(0, frequencies.size, BLOCK)]
    share = np.concatenate([_explained(time - time[0], residual, block) for block in blocks], axis=1)
    fused = best_third(share)
    best = int(np.argmax(fused))
    for parts in (2, 3, 4, 5):  # twice the period folds as well: the shortest that folds about as well
        near = np.flatnonzero(np.abs(frequencies - parts * frequencies[best]) <= parts / span)
        if near.size and fused[near].max() >= FRACTION * fused[best]:
            best = int(near[np.argmax(fused[near])])
    frequency, explained = float(frequencies[best]), float(fused[best])
    alone = _explained_near(time, residual, frequency, BINS, span)
    by_turns = {k: _explained_near(time, residual, frequency / k, k * BINS, span) / max(alone, 1e-9) for k in (2, 3)}
    if by_turns[2] > TURNS and 2 / frequency <= LONGEST:
        best = int(np.argmin(np.abs(frequencies - frequency / 2)))
        frequency, explained = frequency / 2, explained * by_turns[2]
        by_turns = {k: share / by_turns[2] for k, share in by_turns.items()}
    turns = max(by_turns.values())
    unrelated = np.ones(frequencies.size, dtype=bool)
    for ratio in (1 / 3, 1 / 2, 2 / 3, 1, 3 / 2, 2, 3):  # and 3 % around them by choice
        unrelated &= np.abs(frequencies - frequency * ratio) > 2 / span + 0.03 * frequency * ratio
    ahead = explained / max(float(fused[unrelated].max(initial=0.0)), 1e-3)
    if explained < EXPLAINED or explained * time.size < SIGNIFICANT:
        return None
    boundaries, covered = _boundaries(time, residual, share[:, best], 1 / frequency)
    if turns > TURNS or covered < COVERED or boundaries.size <= CYCLES:
        return None
    return Folded(
        period=1 / frequency,
        boundaries=boundaries,
        explained=explained,
        significance=explained * time.size,
        ahead=ahead,
        turns=turns,
        covered=covered,
        metrics=residual.shape[0],
        looked_at=time.size / grid.readings.size,
    )


def _explained_near(
    time: NDArray[np.float64], residual: NDArray[np.float64], frequency: float, bins: int, span: float
) -> float:
    """The most that is explained around a frequency: a multiple of a period is known the better, the longer it is."""
    around = frequency + np.arange(-4, 5) / (8 * span)
    return float(best_third(_explained(time - time[0], residual, around[around > 0], bins)).max(initial=0.0))


def _readings(grid: Grid) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times [samples of the trace] and residuals of the middle `MOST_READINGS` readings."""
    first = max(0, (grid.readings.size - MOST_READINGS) // 2)
    middle = slice(first, first + MOST_READINGS)
    return grid.readings[middle] / grid.over, _residual(grid.raw[:, middle])


def _residual(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values less their moving median, in multiples of their spread, clipped; rows that hardly vary are left out."""
    residual = values - running_median(values, 2 * int(LONGEST) + 1)
    spread = np.median(np.abs(residual), axis=1, keepdims=True)
    spread = np.where(spread > 0, spread, np.abs(residual).mean(axis=1, keepdims=True))  # full but for its dips
    varying = spread[:, 0] > 0
    residual = np.clip(residual[varying] / spread[varying], -8, 8)  # by choice
    return np.asarray(residual - residual.mean(axis=1, keepdims=True))


def _explained(
    time: NDArray[np.float64], residual: NDArray[np.float64], frequencies: NDArray[np.float64], bins: int = BINS
) -> NDArray[np.float64]:
    """Share of the variance that the mean cycle explains, less what bins explain of noise: (metrics, frequencies)."""
    n, count = time.size, frequencies.size
    phase = (np.outer(frequencies, time) % 1 * bins).astype(np.int64) + bins * np.arange(count)[:, None]
    flat = phase.ravel()
    members = np.bincount(flat, minlength=bins * count).reshape(count, bins)
    sums = [np.bincount(flat, np.tile(row, count), minlength=bins * count).reshape(count, bins) for row in residual]
    share = (np.array(sums) ** 2 / np.maximum(members, 1)).sum(axis=2) / (residual**2).sum(axis=1, keepdims=True)
    noise = (bins - 1) / n
    return np.asarray(np.maximum(0.0, (share - noise) / (1 - noise)))


def _boundaries(
    time: NDArray[np.float64], residual: NDArray[np.float64], weights: NDArray[np.float64], period: float
) -> tuple[NDArray[np.float64], float]:
    """Even boundaries over the longest stretch in which the cycle runs, and the share of the readings in it."""
    bins = 2 * BINS
    phase = (time - time[0]) / period % 1
    index = (phase * bins).astype(np.int64)
    members = np.maximum(np.bincount(index, minlength=bins), 1)
    mean = np.array([np.bincount(index, row, minlength=bins) / members for row in residual])
    begin = boundary_phase(mean * np.sqrt(weights)[:, None]) / bins
    product = (weights[:, None] * residual * mean[:, index]).sum(axis=0)
    energy = (weights[:, None] * residual**2).sum(axis=0), (weights[:, None] * mean[:, index] ** 2).sum(axis=0)
    width = max(3, round(WINDOW_CYCLES * period))
    match, own, its = running_mean(np.array([product, *energy]), width, "symmetric")
    match = match / np.sqrt(np.maximum(own * its, 1e-12))
    starts, ends = runs(match > RUNNING)
    if not starts.size:
        return np.empty(0), 0.0
    longest = int(np.argmax(ends - starts))
    first, last = time[starts[longest]], time[ends[longest] - 1]
    origin = time[0] + begin * period
    # By choice: a boundary may lie a quarter of a cycle outside.
    cycles = np.arange(np.ceil((first - origin) / period - 0.25), np.floor((last - origin) / period + 0.25) + 1)
    return np.asarray(origin + cycles * period), float((ends[longest] - starts[longest]) / time.size)
