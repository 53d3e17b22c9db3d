"""The best cycle of a grid: followed where its boundaries show, folded where it is strict and has few readings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .boundaries import EVEN, LAG, Track, follow, refined, typical, with_edges
from .confidence import confidence, of_fold, of_track, whole
from .folding import BINS, Folded, explained_at, fold
from .grid import Grid
from .periods import SAME, candidates

#: A track less sure than this gives way to a folded cycle.
UNSURE = 0.6

#: A cycle of fewer readings is not followed.
FEWEST_READINGS = 6

#: An epoch this likely is preferred to a step within it or beside it, however sure that is: a step loop alone has none.
LIKELY = 0.2

#: The best tracks are also tried as so many epochs in one.
FRACTIONS = (2, 3, 4, 5)

#: A first interval longer than so many usual ones holds setup.
SETUP = 1.25

#: A strict cycle explains this share of what several of it together do; a mere part of a cycle explains half at most.
PART = 0.55

#: A known cycle needs this quality to be there again.
AGAIN = 0.3

#: Periods of a trace that are followed until a cycle is chosen.
ENOUGH = 300


@dataclass(frozen=True)
class Cycle:
    """A cycle that was found.

    Attributes:
        period: seconds of the clock.
        boundaries: (k,) fractional samples of the grid, increasing, k >= 2.
        even: (k - 1,) which intervals lie close to their median.
        match: (k,) 0..1, how well each boundary fits.
        confidence: 0..1.
        curves: what plots need; `methods.track.detect` names them. `similarity` stands at the samples `similarity_at`.
    """

    period: float
    boundaries: NDArray[np.float64]
    even: NDArray[np.bool_]
    match: NDArray[np.float64]
    confidence: float
    curves: dict[str, NDArray[np.float64]]


def find(grid: Grid, shortest_epoch_s: float, *, most: int = 6) -> Cycle | None:
    """The best cycle of a grid, however unsure; None if nothing repeats.

    Args:
        grid: to search.
        shortest_epoch_s: a shorter cycle is a step, in seconds of the clock; it gives way to an epoch that is there as well.
        most: candidate periods to follow.
    """
    tracks = followed(grid, most)
    cycle = None
    if tracks:
        shortest = shortest_epoch_s / grid.step
        sure = [confidence(of_track(track, tracks, grid.values.shape[0], shortest)) for track in tracks]
        best = preferred([track.samples for track in tracks], sure, shortest)
        full = tracks[best] if _piece(grid, tracks[best].samples) is grid.values else follow(grid.values, tracks[best].samples)
        cycle = _tracked(full, tracks, sure[best], grid) if full is not None else None
    folded = fold(grid)
    strict = None if folded is None else _folded(folded, grid)
    if cycle is None or folded is None or strict is None:
        return cycle or strict
    # Read at even times, a strict cycle repeats after some cycles as exactly as after one; part of a cycle folds worse.
    bins = BINS * max(1, round(cycle.period / strict.period))  # as wide as those of the strict one
    several = (
        strict.confidence >= UNSURE
        and whole(float(np.log(cycle.period / strict.period)))
        and folded.explained >= PART * explained_at(grid, cycle.period, bins)
    )
    return strict if several or (cycle.confidence < UNSURE and strict.confidence > cycle.confidence) else cycle


def again(grid: Grid, period: float) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Boundaries [fractional samples] of a known cycle in another stretch of the trace, and their matches; None without any.

    Args:
        grid: of that stretch.
        period: seconds of the clock.
    """
    track = follow(grid.values, period / grid.step)
    if track is None or track.fit.quality < AGAIN or abs(np.log(track.samples * grid.step / period)) > SAME:
        return None
    return _ends(track, grid)


def preferred(periods: Sequence[float], sure: Sequence[float], shortest: float) -> int:
    """Which cycle is the answer: the surest, but an epoch rather than its steps.

    Args:
        periods: one per cycle.
        sure: their confidences.
        shortest: a shorter cycle is a step; the unit of `periods`.
    """
    best = int(np.argmax(sure))
    if periods[best] >= shortest:
        return best
    # A few steps together repeat as well as one: no epoch.
    epochs = [
        i
        for i, period in enumerate(periods)
        if period >= shortest and sure[i] >= LIKELY and not whole(float(np.log(period / periods[best])))
    ]
    return max(epochs, key=lambda i: sure[i], default=best)


def followed(grid: Grid, most: int) -> list[Track]:
    """Tracks of the candidate periods, and of fractions of the best ones: a checkpoint every k epochs hides the epoch."""
    # Interpolated between too few readings, the curve is not the cycle's: that is for `folding`.
    fewest = FEWEST_READINGS * float(np.median(np.diff(grid.readings))) / grid.step
    periods = [candidate.period for candidate in candidates(grid.values, grid.step, most)]
    tracks = [track for period in periods if period >= fewest and (track := _followed(grid, period)) is not None]
    for long in sorted(tracks, key=lambda track: -track.fit.quality)[: most // 2]:
        for count in FRACTIONS:
            period = long.samples / count
            if period >= fewest and all(abs(np.log(period / other.samples)) > SAME for other in tracks):
                part = _followed(grid, period)
                tracks += [part] if part is not None else []
    return tracks


def _followed(grid: Grid, period: float) -> Track | None:
    return follow(_piece(grid, period), period)


def _piece(grid: Grid, period: float) -> NDArray[np.float64]:
    """The middle `ENOUGH` periods, or all there is: more do not tell better whether it is a cycle."""
    n, length = grid.values.shape[1], round(ENOUGH * period)
    return grid.values if n <= length else grid.values[:, (n - length) // 2 : (n + length) // 2]


def _folded(folded: Folded, grid: Grid) -> Cycle:
    return Cycle(
        period=folded.period,
        boundaries=(folded.boundaries - grid.start) / grid.step,
        even=np.ones(folded.boundaries.size - 1, dtype=bool),
        match=np.full(folded.boundaries.size, np.sqrt(folded.explained)),
        confidence=confidence(of_fold(folded)),
        curves={},
    )


def _tracked(best: Track, tracks: list[Track], sure: float, grid: Grid) -> Cycle:
    boundaries, match = _ends(best, grid)
    lengths = np.diff(boundaries)
    even = np.abs(lengths / np.median(lengths) - 1) <= EVEN
    even |= not even.any()
    return Cycle(
        period=typical(_whole_epochs(lengths, best)) * grid.step,
        boundaries=boundaries,
        even=even,
        match=match,
        confidence=sure,
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


def _whole_epochs(lengths: NDArray[np.float64], track: Track) -> NDArray[np.float64]:
    """The intervals that are epochs from start to start: what leads in may hold setup, and no epoch follows the last one."""
    if track.fit.lead and lengths.size > 2 and lengths[0] > SETUP * np.median(lengths[1:]):
        lengths = lengths[1:]
    return lengths[:-1] if track.fit.tail and lengths.size > 2 else lengths


def _ends(track: Track, grid: Grid) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Refined boundaries, with the stretch's ends where an epoch reaches them, and how well each fits, 0..1."""
    lead, tail = track.fit.lead, track.fit.tail
    boundaries = with_edges(refined(grid.values, track), lead, tail, -LAG, grid.values.shape[1] - 1.0)
    # An epoch at the stretch's end has one tracked boundary of two: half the confidence.
    return boundaries, with_edges(track.match, lead, tail, track.match[0] / 2, track.match[-1] / 2).clip(0, 1)
