"""The best cycle of a grid: followed where its boundaries show, folded where it is strict and has few readings."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import running_mean
from epochcast.detector.methods.track.boundaries import Track, follow, refined, typical
from epochcast.detector.methods.track.confidence import MOST, confidence, is_multiple, of_fold, of_track
from epochcast.detector.methods.track.ends import with_ends
from epochcast.detector.methods.track.folding import Folded, fold
from epochcast.detector.methods.track.grid import Grid
from epochcast.detector.methods.track.periods import candidates, is_new, same

# "By choice", or without a word: set by hand while the tracker was made; no sweep was kept. "Research notes": the tracker in
# ../shared/research/detector.md, 4, tuned there on simulated traces. What all find together is measured by
# lab/speed/detector/comparison.py; calibrate.py fits the confidence to it.

#: An epoch is preferred to its steps if it is this share as likely. By choice.
LIKELY = 0.5

#: Half of the trace is looked at by itself if it has so many cycles. By choice.
FEWEST_CYCLES = 3

#: So many boundaries are few. By choice.
FEW = 3

#: A share of the best quality that is as good. By choice.
AS_WELL = 0.8

#: More than so many cycles that fill less than this share of the stretch are the steps of a part of it, and no answer for all.
#: By choice.
MANY, FILLED = 60, 0.45

#: A cycle of fewer readings is not followed. By choice; `boundaries.follow` needs as many bins.
FEWEST_READINGS = 6

#: The best tracks are also tried as so many epochs in one. Research notes.
FRACTIONS = (2, 3, 4, 5)

#: A track of less quality is also tried on running means over so small a part of the period. By choice (decision 0036).
CLEAR, SMOOTHED = 0.6, 16

#: A known cycle needs this quality to be there again. By choice.
AGAIN = 0.3

#: Periods of a trace that are followed until a cycle is chosen. By choice.
ENOUGH = 200


@dataclass(frozen=True)
class TrackedCycle:
    """A cycle of the trace, with its boundaries.

    Attributes:
        period: seconds of the clock.
        boundaries: (k,) fractional samples of the grid, increasing, k >= 2.
        match: (k,) 0..1, how well each boundary fits.
        confidence: 0..1.
        rival: confidence of the likeliest part or multiple of it, 0..1.
        halves: periods [samples of the grid] that fit the first and the second half, with their qualities; empty if unknown.
        curves: what plots need; `methods.track.detect` names them. `similarity` stands at the samples `similarity_at`.
    """

    period: float
    boundaries: NDArray[np.float64]
    match: NDArray[np.float64]
    confidence: float
    rival: float
    halves: tuple[tuple[float, float], ...]
    curves: dict[str, NDArray[np.float64]]


def find(grid: Grid, *, most: int = 6) -> TrackedCycle | None:
    """The best cycle of a grid, however unsure; None if nothing repeats.

    Args:
        grid: to search.
        most: candidate periods to follow; 6 by choice, and what the confidence is fitted with.
    """
    folded = fold(grid)
    tracks = followed(grid, most, folded)
    strict = None if folded is None else _folded(folded, tracks, grid)
    if not tracks:
        return strict
    sure = [confidence(of_track(track, tracks, folded, grid)) for track in tracks]
    best = int(np.argmax(sure))
    if strict is not None and strict.confidence > sure[best]:
        outer = _outer(tracks, sure, strict.period / grid.step, strict.confidence)
        if outer is None:
            return strict
        best = outer
    elif (outer := _outer(tracks, sure, tracks[best].samples, sure[best])) is not None:
        best = outer
    # The period is as sure as its surest track; the boundaries are of one that is nearly as sure and fits best.
    equal = [i for i, track in enumerate(tracks) if same(track.samples, tracks[best].samples)]
    full = tracks[max(equal, key=lambda i: sure[i] * tracks[i].fit.quality)]
    if _middle(grid.values, full.samples) is not grid.values:
        full = _followed(grid.values, full.samples, grid.over, most=None) or full
    return _tracked(full, sure[best], tracks, sure, grid)


def _outer(tracks: list[Track], sure: list[float], steps: float, its: float) -> int | None:
    """The likeliest track of which a cycle [samples of the grid], with its confidence, may be the steps; None without any.

    Steps are stricter than epochs, and there are many more of them: an epoch need not be as sure to be the answer. A few cycles
    within another may as well be epochs, and the other the distance of two evaluations: there the surer one is the answer.
    """
    least = (MOST + 1) * steps
    likely = [i for i, track in enumerate(tracks) if track.samples >= least and sure[i] >= LIKELY * its]
    return max(likely, key=lambda i: sure[i], default=None)


def again(grid: Grid, period: float) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Boundaries [fractional samples] of a known cycle in another stretch of the trace, and their matches; None without any.

    Args:
        grid: of that stretch.
        period: seconds of the clock.
    """
    track = _followed(grid.values, period / grid.step, grid.over, most=None)
    if track is None or track.fit.quality < AGAIN or not same(track.samples * grid.step, period):
        return None
    return with_ends(grid, refined(grid.values, track, grid.lag), track.match, track.samples, track.rows(grid.values.shape[0]))


def followed(grid: Grid, most: int, folded: Folded | None) -> list[Track]:
    """Tracks of the candidate periods, and of fractions of the best ones: a checkpoint every k epochs hides the epoch."""
    # Interpolated between too few readings, the curve is not the cycle's: that is for `folding`.
    fewest = FEWEST_READINGS * grid.over
    periods = candidates(grid.values, most)
    if folded is not None and is_new(folded.period * grid.over, periods):
        periods.append(folded.period * grid.over)
    tracks = [
        track for period in periods if period >= fewest and (track := _followed(grid.values, period, grid.over)) is not None
    ]
    for long in sorted(tracks, key=lambda track: -track.fit.quality)[: most // 2]:
        for count in FRACTIONS:
            period = long.samples / count
            if period >= fewest and is_new(period, [other.samples for other in tracks]):
                part = _followed(grid.values, period, grid.over)
                tracks += [part] if part is not None else []
    return [replace(track, halves=_halves(track, grid)) for track in tracks]


def _halves(track: Track, grid: Grid) -> tuple[tuple[float, float], ...]:
    """Of either half of the grid the period near a track's that it shows, and how well (0: not at all); none if too short."""
    middle = grid.values.shape[1] // 2
    if middle < FEWEST_CYCLES * track.samples:
        return ()
    parts = grid.values[:, :middle], grid.values[:, middle:]
    sides = [_followed(values, track.samples, grid.over, ENOUGH // 2) for values in parts]
    return tuple((track.samples, 0.0) if side is None else (side.samples, side.fit.quality) for side in sides)


def _followed(values: NDArray[np.float64], period: float, over: int, most: int | None = ENOUGH) -> Track | None:
    """The track of a period [samples of the grid] over `most` periods; of running means where it hardly stands out of noise."""
    piece = values if most is None else _middle(values, period)
    track = follow(piece, period)
    width = round(period / SMOOTHED)
    if width <= over or (track is not None and track.fit.quality >= CLEAR):
        return track
    smooth = follow(running_mean(piece, width), period)
    if smooth is None or (track is not None and smooth.fit.quality <= track.fit.quality):
        return track
    return replace(smooth, smooth=True)


def _middle(values: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    """The middle `ENOUGH` periods, or all there is: more do not show better whether it is a cycle."""
    n, length = values.shape[1], round(ENOUGH * period)
    return values if n <= length else values[:, (n - length) // 2 : (n + length) // 2]


def _folded(folded: Folded, tracks: list[Track], grid: Grid) -> TrackedCycle:
    return TrackedCycle(
        period=folded.period * grid.over * grid.step,
        boundaries=folded.boundaries * grid.over,
        match=np.full(folded.boundaries.size, np.sqrt(folded.explained)),
        confidence=confidence(of_fold(folded, tracks, grid)),
        rival=0.0,
        halves=(),
        curves={},
    )


def _tracked(best: Track, its: float, tracks: list[Track], sure: list[float], grid: Grid) -> TrackedCycle:
    inner = refined(grid.values, best, grid.lag)
    partial = inner.size > MANY and inner[-1] - inner[0] < FILLED * grid.values.shape[1]
    boundaries, match = with_ends(grid, inner, best.match, best.samples, best.rows(grid.values.shape[0]))
    return TrackedCycle(
        # The ends are less exact than matched boundaries, and count where there are few of these.
        period=typical(np.diff(inner if inner.size > FEW else boundaries), grid.quantum) * grid.step,
        boundaries=boundaries,
        match=match,
        confidence=its / 2 if partial else its,
        rival=max((own for own, other in zip(sure, tracks, strict=True) if _related(best, other)), default=0.0),
        halves=tuple(half for i in (0, 1) if (half := _best_half([track.halves[i] for track in tracks if track.halves]))),
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


def _related(first: Track, second: Track) -> bool:
    ratio = float(np.log(second.samples / first.samples))
    return is_multiple(ratio) or is_multiple(-ratio)


def _best_half(halves: list[tuple[float, float]]) -> tuple[float, float] | None:
    """The shortest period that fits about as well as any: several cycles together fit as well as one."""
    most = max((quality for _, quality in halves), default=0.0)
    return min((half for half in halves if half[1] >= AS_WELL * most), default=None)
