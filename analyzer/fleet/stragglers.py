"""The GPU that the others of its job wait for.

GPUs that train in step have epochs of one length, whoever is slow: the slow one works on while the others wait, so what shows
it is that its multiprocessors are busy for more of the time. A GPU that no other waits for shows it by its longer epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ..live.report import Report

# What falls while a GPU waits, most telling first: kernels that spin for the others keep the engine busy, and little else.
_WORK = ("sm_active", "tensor_active", "dram_active")

# One that works so much more than the middle of the others stands out; no two chips of a job show quite the same.
_MORE = 0.06

# And so many times as far from the middle as the farthest of the others. Two GPUs have no others to compare with.
_FARTHER = 3.0

_LEAST_ACTIVE = 0.05


@dataclass(frozen=True)
class Straggler:
    """A GPU that holds its job up.

    Attributes:
        place: in what was given.
        waits: share of the time that the others could save if it were as fast as they are, 0..1.
        why: one sentence.
    """

    place: int
    waits: float
    why: str


def straggler_of(reports: Sequence[Report], slowest: str | None) -> Straggler | None:
    """Find the GPU that the others wait for.

    Args:
        reports: of one job's GPUs, with their profiles.
        slowest: UUID of the one whose epochs stand out as longer, where one's do.
    """
    if slowest is not None:
        return _by_pace(reports, slowest)
    if len(reports) < 3 or any(report.verdict == "none" for report in reports):
        return None
    for metric in _WORK:
        active = [_mean(report, metric) for report in reports]
        known = [value for value in active if value is not None]
        if len(known) < len(reports) or median(known) < _LEAST_ACTIVE:
            continue
        return _by_work(metric, known)
    return None


def _by_pace(reports: Sequence[Report], slowest: str) -> Straggler:
    place = next(number for number, report in enumerate(reports) if report.device.uuid == slowest)
    others = median(report.period_s for number, report in enumerate(reports) if number != place and report.period_s)
    own = reports[place].period_s or others
    return Straggler(place, 1 - others / own, f"its epochs take {own:.3g} s, those of the others {others:.3g} s")


def _by_work(metric: str, active: Sequence[float]) -> Straggler | None:
    place = max(range(len(active)), key=lambda number: active[number])
    others = [value for number, value in enumerate(active) if number != place]
    middle, own = median(others), active[place]
    farthest = max(abs(value - middle) for value in others)
    if own < (1 + _MORE) * middle or own - middle < _FARTHER * farthest:
        return None
    waits = 1 - middle / own
    why = f"{metric} {own:.2f} where the others have {middle:.2f}: they wait for it, or it has more of the work"
    return Straggler(place, waits, why)


def _mean(report: Report, metric: str) -> float | None:
    statistics = None if report.profile is None else report.profile.metrics.get(metric)
    return None if statistics is None else statistics["mean"]
