"""Which of the tracks is the epoch: neither several of them, nor a step within."""

from dataclasses import replace

import numpy as np

from .boundaries import Track, follow
from .grid import Grid

#: A cycle whose ends stand out this much (match) from everything within it is not made of shorter ones.
FUNDAMENTAL = 0.5

#: A track whose boundaries match each other by so much more than anything between them does is no multiple of another.
DISTINCT = 0.18


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
