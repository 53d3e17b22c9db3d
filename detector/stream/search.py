"""The tracker's answer on what the pyramid holds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..detection import detect
from ..epochs import Detection
from ..methods.track.periods import SAME
from ..signals import COUNTERS
from .pyramid import FACTOR, STATISTICS, Pyramid
from .samples import Resampler


@dataclass(frozen=True)
class Search:
    """An answer, and what it was found in.

    Attributes:
        found: without scores.
        first: first sample of the stream's grid that was searched.
        level: of the pyramid.
    """

    found: Detection
    first: int
    level: int


#: What doubles the cost of a search each, and is left out unless asked for.
FRUGAL: Mapping[str, Any] = {"most_jobs": 1, "both_clocks": False}


def search(pyramid: Pyramid, resampler: Resampler, level: int, since: int, parameters: Mapping[str, Any]) -> Search | None:
    """Search what a level holds from sample `since` on, for one job; None if there is nothing to search."""
    first, bins = pyramid.window(level, since)
    if bins.shape[2] < 2 or np.isnan(bins).all() or resampler.origin is None:
        return None
    width = FACTOR**level
    centres = first + (width - 1) / 2 + width * np.arange(bins.shape[2])
    metrics = {}
    for statistic, rows in zip(STATISTICS, bins, strict=False):
        for name, row in zip(resampler.metrics, rows, strict=True):
            # What was a counter is a rate by now.
            column = f"{name} rate" if name in COUNTERS else name
            metrics[column if statistic == "mean" else f"{column} {statistic}"] = row.astype(np.float64)
    found = detect(resampler.origin + resampler.step_s * centres, metrics, **{**FRUGAL, **parameters})
    return Search(replace(found, scores={}), first, level)


def alike(one: Detection | None, other: Detection | None) -> bool:
    """Whether two answers agree."""
    if one is None or other is None or one.verdict != other.verdict:
        return False
    if one.period_s is None or other.period_s is None:
        return True
    return close(one.period_s, other.period_s)


def close(one: float, other: float) -> bool:
    """Whether two periods are the same candidate of the tracker: within 6 %."""
    return abs(float(np.log(one / other))) <= SAME
