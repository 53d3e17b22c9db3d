"""The best cycle of a grid: followed where its boundaries show, folded where it is strict and has few readings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .boundaries import EVEN, Track, follow, refined, with_edges
from .choice import choose
from .confidence import confidence, of_fold, of_track
from .folding import Folded, fold
from .grid import Grid
from .periods import candidates

#: A track less sure than this gives way to a folded cycle.
UNSURE = 0.6

#: Intervals this close to the median (or to within this many samples) are averaged: slower stretches must not count.
CLOSE, CLOSE_SAMPLES = 0.03, 2


@dataclass(frozen=True)
class Cycle:
    """A cycle that was found.

    Attributes:
        period: seconds of the clock.
        boundaries: (k,) fractional samples of the grid, increasing, k >= 2.
        even: (k - 1,) which intervals lie close to their median.
        match: (k,) 0..1, how well each boundary fits.
        confidence: 0..1.
        evidence: what the confidence rests on, see `confidence`.
        curves: what plots need; `methods.track.detect` names them. `similarity` stands at the samples `similarity_at`.
    """

    period: float
    boundaries: NDArray[np.float64]
    even: NDArray[np.bool_]
    match: NDArray[np.float64]
    confidence: float
    evidence: dict[str, float]
    curves: dict[str, NDArray[np.float64]]


def find(grid: Grid) -> Cycle | None:
    """The best cycle of a grid, however unsure; None if nothing repeats."""
    tracks = [follow(grid.values, candidate.period) for candidate in candidates(grid.values, grid.step)]
    found = [track for track in tracks if track is not None]
    best = _tracked(choose(found, grid), found, grid) if found else None
    if best is None or best.confidence < UNSURE:
        folded = fold(grid)
        if folded is not None and folded.boundaries.size > 2:
            return _folded(folded, grid)
    return best


def _folded(folded: Folded, grid: Grid) -> Cycle:
    evidence = of_fold(folded)
    return Cycle(
        period=folded.period,
        boundaries=(folded.boundaries - grid.start) / grid.step,
        even=np.ones(folded.boundaries.size - 1, dtype=bool),
        match=np.full(folded.boundaries.size, np.sqrt(folded.explained)),
        confidence=confidence(evidence),
        evidence=evidence,
        curves={},
    )


def _tracked(best: Track, tracks: list[Track], grid: Grid) -> Cycle:
    lead, tail = best.fit.lead, best.fit.tail
    inner = refined(grid.values, best)
    boundaries = with_edges(inner, lead, tail, -0.5, grid.values.shape[1] - 0.5)
    lengths = np.diff(boundaries)
    even = np.abs(lengths / np.median(lengths) - 1) <= EVEN
    even |= not even.any()
    evidence = of_track(best, tracks)
    return Cycle(
        period=_typical(np.diff(inner) if inner.size > 2 else lengths[even]) * grid.step,
        boundaries=boundaries,
        even=even,
        # An epoch at the trace's busy end has one tracked boundary of two: half the confidence.
        match=with_edges(best.match, lead, tail, best.match[0] / 2, best.match[-1] / 2).clip(0, 1),
        confidence=confidence(evidence),
        evidence=evidence,
        curves={
            "similarity_at": np.asarray((np.arange(best.similarity.size) + 0.5) * best.size - 0.5, dtype=np.float64),
            "similarity": best.similarity,
            "candidate_period": np.array([track.samples * grid.step for track in tracks]),
            "candidate_quality": np.array([track.fit.quality for track in tracks]),
            "template": best.template[int(np.argmax(best.weights))] / np.sqrt(best.weights.max()),
            "template_time": np.asarray(
                (np.arange(best.template.shape[1]) - best.before) * best.size * grid.step, dtype=np.float64
            ),
        },
    )


def _typical(lengths: NDArray[np.float64]) -> float:
    """Mean of the lengths that lie close to their median."""
    median = float(np.median(lengths))
    close = np.abs(lengths - median) <= max(CLOSE * median, CLOSE_SAMPLES)
    return float(lengths[close].mean()) if close.any() else median
