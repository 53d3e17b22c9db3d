"""Epoch tracking: candidate periods, template matching, dynamic programming, and a quality that knows when to abstain.

Unlike the paper's recipe it needs neither a cropped trace nor a fitting number of epochs, fuses every varying metric, tolerates
jitter, missing samples and drift, and says nothing when unsure.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...clock import Clock
from ...epochs import Detection, Epoch, Job
from ...errors import InputError
from ...signals import Signals
from .boundaries import EVEN, Track, follow, refined, with_edges
from .grid import Grid, build
from .periods import candidates

#: A cycle whose ends stand out this much (match) from everything within it is not made of shorter ones.
FUNDAMENTAL = 0.5


#: A track whose boundaries match each other by so much more than anything between them does is no multiple of another.
DISTINCT = 0.18


def detect(signals: Signals, clock: Clock, *, abstain_below: float = 0.6, shortest_epoch_s: float = 4.0) -> Detection:
    """Epochs, or the steps of a job without visible epochs, or nothing.

    The confidence is the quality of the best track: how alike the surroundings of its boundaries are, how unlike the rest they
    are, how even and how many the intervals, and how much of the busy stretch they cover, multiplied.

    A cycle shorter than `shortest_epoch_s` wall seconds gets the verdict `steps`: telemetry cannot tell a step from an epoch
    that short (batch inference and language-model steps are as even as epochs), so shorter true epochs are called steps too.

    Args:
        signals: n samples; every varying metric is used.
        clock: the clock to search on.
        abstain_below: verdict `none` for a lower confidence, 0..1.
        shortest_epoch_s: wall seconds.

    Returns:
        `scores` holds `similarity`, (n,) at the samples' times: the match of the boundary template, about -1..1; and one value
        per candidate period: `candidate_period` [s of the clock] and `candidate_quality`. They stay when it abstains.

    Raises:
        InputError: a parameter out of bounds.
    """
    if not 0 <= abstain_below <= 1:
        raise InputError(f"abstain_below is {abstain_below}: choose 0 to 1")
    if not shortest_epoch_s >= 0:
        raise InputError(f"shortest_epoch_s is {shortest_epoch_s}: choose 0 seconds or more")
    grid = build(signals, clock)
    tracks = [] if grid is None else tracked(grid)
    if grid is None or not tracks:
        return Detection("none", None, None, (), 0.0, "track", clock.name)
    best = choose(tracks, grid)
    scores = _scores(tracks, best, grid, clock)
    if best.fit.quality < abstain_below:
        return Detection("none", None, None, (), best.fit.quality, "track", clock.name, scores=scores)

    lead, tail = best.fit.lead, best.fit.tail
    boundaries = grid.reading(with_edges(refined(grid.values, best), lead, tail, -0.5, grid.values.shape[1] - 0.5))
    lengths = np.diff(boundaries)
    even = np.abs(lengths / np.median(lengths) - 1) <= EVEN
    even |= not even.any()
    times = clock.to_wall(boundaries).clip(signals.time[0], signals.time[-1])
    # Wall seconds vary with what else ran on the device, hence the median; work does not.
    period = float(np.median(np.diff(times)[even])) if clock.name == "work" else float(lengths[even].mean())
    work = float(lengths[even].mean()) if clock.name == "work" else None
    if period < shortest_epoch_s:
        return Detection("steps", period, work, (), best.fit.quality, "track", clock.name, step_s=period, scores=scores)
    # An epoch at the trace's busy end has one tracked boundary of two: half the confidence.
    match = with_edges(best.match, lead, tail, best.match[0] / 2, best.match[-1] / 2).clip(0, 1)
    epochs = tuple(
        Epoch(start, end, min(pair))
        for (start, end), pair in zip(pairwise(times.tolist()), pairwise(match.tolist()), strict=True)
    )
    jobs = (Job(period, epochs, best.fit.quality),)
    return Detection("epochs", period, work, epochs, best.fit.quality, "track", clock.name, jobs=jobs, scores=scores)


def tracked(grid: Grid) -> list[Track]:
    """Every candidate period that could be followed."""
    tracks = [follow(grid.values, candidate.period) for candidate in candidates(grid.values, grid.step)]
    return [track for track in tracks if track is not None]


def choose(tracks: list[Track], grid: Grid) -> Track:
    """The best track, unless a much longer one is good too (steps within epochs), or a fraction of it is nearly as good.

    A fraction that tracks nearly as well means that the longer cycle is k epochs (a checkpoint every k).
    """
    best = max(tracks, key=lambda track: track.fit.quality * (1 + 0.05 * np.log2(max(1.0, track.samples * grid.step))))
    # Many epochs together repeat as well as one does, but look alike within: length alone must not let them win.
    if best.fit.distinct <= 0:
        shorter = [
            track
            for track in tracks
            if track.samples < best.samples and track.fit.quality > best.fit.quality and track.fit.distinct > DISTINCT
        ]
        best = max(shorter, key=lambda track: track.fit.quality, default=best)
    longer = [
        track
        for track in tracks
        if track.samples > 5 * best.samples
        and track.fit.quality > max(0.3, 0.45 * best.fit.quality)
        and track.boundaries.size >= 4
        and min(track.fit.contrast, track.fit.distinct) > DISTINCT
    ]
    if longer:
        best = max(longer, key=lambda track: track.fit.quality)
    while parts := [part for count in (2, 3, 4, 5) if (part := _part(best, count, grid)) is not None]:
        best = max(parts, key=lambda track: track.fit.quality)  # ends, since `follow` refuses periods below 6 samples
    return best


def _part(whole: Track, count: int, grid: Grid) -> Track | None:
    """The cycle `count` times as short as `whole`, if it holds; its quality becomes the geometric mean of both."""
    if whole.fit.distinct > FUNDAMENTAL:
        return None
    part = follow(grid.values, whole.samples / count)
    if part is None or abs(np.log(part.samples * count / whole.samples)) > 0.25:
        return None
    alike = part.fit.quality >= 0.72 * whole.fit.quality and part.fit.contrast > 0.12
    # Epochs with and without a checkpoint differ in length, hence in quality, but nothing within them looks like their ends.
    marked = part.fit.quality >= 0.55 * whole.fit.quality and part.fit.distinct > 0.5
    if not (alike or marked):
        return None
    quality = float(np.sqrt(part.fit.quality * max(part.fit.quality, whole.fit.quality)))
    return replace(part, fit=replace(part.fit, quality=quality))


def _scores(tracks: list[Track], best: Track, grid: Grid, clock: Clock) -> dict[str, NDArray[np.float64]]:
    centres = grid.reading((np.arange(best.similarity.size) + 0.5) * best.size - 0.5)
    return {
        "similarity": np.interp(clock.reading, centres, best.similarity, left=0.0, right=0.0),
        "candidate_period": np.array([track.samples * grid.step for track in tracks]),
        "candidate_quality": np.array([track.fit.quality for track in tracks]),
    }
