"""The tracker's answer on what the pyramid holds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..detection import detect
from ..epochs import Detection
from ..methods.track.periods import SAME
from ..signals import COUNTERS
from .pyramid import FACTOR, Pyramid
from .samples import Resampler

#: Bins of a search while the job runs: their means. On 27 simulated trainings cut after 4.5 epochs as many answers are right as
#: on the samples themselves, on 36 whole traces 18 instead of 20; a search takes 0.20 s instead of 0.35 and 0.48. Decision
#: 0039.
MOST_BINS = 512


@dataclass(frozen=True)
class Search:
    """An answer, and what it was found in.

    Attributes:
        found: without scores.
        first: first sample of the stream's grid that was searched.
        width: samples of a bin.
        bins: how many.
    """

    found: Detection
    first: int
    width: int
    bins: int


def search(
    pyramid: Pyramid,
    resampler: Resampler,
    since: int,
    parameters: Mapping[str, Any],
    *,
    widest: float = np.inf,
    whole: bool = False,
) -> Search | None:
    """Search what is held from sample `since` on; None if there is nothing to search.

    Args:
        pyramid: the samples.
        resampler: that they came through.
        since: a sample.
        parameters: of the method `track`.
        widest: samples that a bin may have; of a longer job the last part is searched.
        whole: search for all that `detect` looks for, in the finest bins that hold it all; else frugally.
    """
    level = pyramid.finest(since)
    while level and FACTOR**level > widest:
        level -= 1
    first, bins = pyramid.window(level, since)
    size = 1 if whole else int(max(1, min(-(-bins.shape[2] // MOST_BINS), widest / FACTOR**level)))
    count = bins.shape[2] if whole else min(MOST_BINS, bins.shape[2] // size)
    if count < 2 or resampler.origin is None:
        return None
    width = size * FACTOR**level
    first += (bins.shape[2] - count * size) * FACTOR**level
    means = bins[0, :, bins.shape[2] - count * size :].reshape(bins.shape[1], count, size).mean(axis=2)
    if np.isnan(means).all():
        return None
    # A bin averages what ends with its last sample, as a sample does.
    ends = first + width - 1 + width * np.arange(count)
    metrics = {
        # What was a counter is a rate by now.
        f"{name} rate" if name in COUNTERS else name: row.astype(np.float64)
        for name, row in zip(resampler.metrics, means, strict=True)
    }
    found = detect(resampler.origin + resampler.step_s * ends, metrics, thorough=whole, **parameters)
    return Search(replace(found, scores={}), first, width, count)


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
