"""Epoch tracking: candidate periods, template matching, dynamic programming, and a confidence that knows when to abstain.

Unlike the paper's recipe it needs neither a cropped trace nor a fitting number of epochs, fuses every varying metric, tolerates
jitter, missing samples and drift, tells two jobs apart, and says nothing when unsure.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...clock import Clock
from ...epochs import Detection, Epoch, Job
from ...errors import InputError
from ...signals import Signals
from .cycle import Cycle, find
from .grid import Grid, build
from .second_job import remainder, same


def detect(signals: Signals, clock: Clock, *, abstain_below: float = 0.6, shortest_epoch_s: float = 4.0) -> Detection:
    """Epochs, or the steps of a job without visible epochs, or nothing.

    The confidence is the probability that the period is within 5 % of the epoch's, see `confidence`.

    A cycle shorter than `shortest_epoch_s` wall seconds gets the verdict `steps`: telemetry cannot tell a step from an epoch
    that short (batch inference and language-model steps are as even as epochs), so shorter true epochs are called steps too.

    Args:
        signals: n samples; every varying metric is used.
        clock: the clock to search on.
        abstain_below: verdict `none` for a lower confidence, 0..1.
        shortest_epoch_s: wall seconds.

    Returns:
        `jobs` holds a second job on the device where there is one. `scores` holds `similarity`, (n,) at the samples' times:
        the match of the boundary template, about -1..1; one value per candidate period: `candidate_period` [s of the clock] and
        `candidate_quality`; `template`, (w,) the strongest channel around a boundary, and `template_time`, (w,) seconds of the
        clock from it. They stay when it abstains; a cycle found by folding has none.

    Raises:
        InputError: a parameter out of bounds.
    """
    if not 0 <= abstain_below <= 1:
        raise InputError(f"abstain_below is {abstain_below}: choose 0 to 1")
    if not shortest_epoch_s >= 0:
        raise InputError(f"shortest_epoch_s is {shortest_epoch_s}: choose 0 seconds or more")
    grid = build(signals, clock)
    cycle = None if grid is None else find(grid)
    if grid is None or cycle is None:
        return Detection("none", None, None, (), 0.0, "track", clock.name)
    scores = dict(cycle.curves)
    if "similarity" in scores:
        at = grid.reading(scores.pop("similarity_at"))
        scores["similarity"] = np.interp(clock.reading, at, scores["similarity"], left=0.0, right=0.0)
    confidence = cycle.confidence
    if confidence < abstain_below:
        return Detection("none", None, None, (), confidence, "track", clock.name, scores=scores)
    times = _wall(cycle, grid, signals, clock)
    # Wall seconds vary with what else ran on the device, hence the median; work does not.
    period = float(np.median(np.diff(times)[cycle.even])) if clock.name == "work" else cycle.period
    work = cycle.period if clock.name == "work" else None
    if period < shortest_epoch_s:
        return Detection("steps", period, work, (), confidence, "track", clock.name, step_s=period, scores=scores)
    jobs = [_job(period, times, cycle)]
    other = _second(grid, cycle)
    if other is not None and other.confidence >= max(abstain_below, SECOND) and other.period >= shortest_epoch_s:
        times = _wall(other, grid, signals, clock)
        jobs.append(_job(float(np.median(np.diff(times)[other.even])), times, other))
    return Detection("epochs", period, work, jobs[0].epochs, confidence, "track", clock.name, jobs=tuple(jobs), scores=scores)


#: A second job needs this confidence.
SECOND = 0.6


def _second(grid: Grid, first: Cycle) -> Cycle | None:
    """Another job's cycle in what the first one leaves."""
    rest = remainder(grid, first.boundaries)
    second = None if rest is None else find(rest)
    return None if second is None or same(first.boundaries, second.boundaries) else second


def _wall(cycle: Cycle, grid: Grid, signals: Signals, clock: Clock) -> NDArray[np.float64]:
    return np.asarray(clock.to_wall(grid.reading(cycle.boundaries)).clip(signals.time[0], signals.time[-1]))


def _job(period: float, times: NDArray[np.float64], cycle: Cycle) -> Job:
    epochs = tuple(
        Epoch(start, end, min(pair))
        for (start, end), pair in zip(pairwise(times.tolist()), pairwise(cycle.match.tolist()), strict=True)
    )
    return Job(period, epochs, cycle.confidence)
