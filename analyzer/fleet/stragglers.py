"""The GPU that the others of its job wait for.

GPUs that train in step have epochs of one length, whichever is slow: the slow GPU works while the others wait. A lower clock
shows it, or multiprocessors that are busy for more of the time. A GPU that no other waits for shows it by longer epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from epochcast.analyzer.telemetry.gpu_report import Report

# Busy while a GPU works and hardly while it waits, most telling first: kernels that spin for the others keep the engine busy,
# but little else.
_WORK = ("sm_active", "tensor_active", "dram_active")

# Share of the time in which the slow one works, which a lower clock lengthens: it never waits for the others.
_BUSY = ("gr_engine_active", "gpu_utilization")

# What stands out: a clock so much lower than the middle of the others', or so much more work. Chips of one kind that do the
# same differ by less; and in both it must be so many times as far from the middle as the farthest of the others.
_SLOWER, _MORE, _FARTHER = 0.04, 0.10, 3.0

_LEAST_ACTIVE = 0.05


Straggler = tuple[int, float, str]
"""A GPU that holds its job up: its place in what was given; share of the time that the others could save at most if it were as
fast as they are, 0..1; why, in one sentence."""


def straggler_of(reports: Sequence[Report], slowest: str | None) -> Straggler | None:
    """Find the GPU that the others wait for.

    Args:
        reports: of one job's GPUs, with their profiles.
        slowest: UUID of the one whose epochs stand out as longer, where one's do.
    """
    if slowest is not None:
        return _by_pace(reports, slowest)
    if len(reports) < 2 or any(report.detection.verdict == "none" for report in reports):
        return None
    return _by_clock(reports) or _by_work(reports)


def _by_pace(reports: Sequence[Report], slowest: str) -> Straggler:
    place = next(number for number, report in enumerate(reports) if report.device.uuid == slowest)
    paces = [report.detection.period_s for report in reports]
    others = median(pace for number, pace in enumerate(paces) if number != place and pace)
    own = paces[place] or others
    return place, 1 - others / own, f"its epochs take {own:.3g} s, those of the others {others:.3g} s"


def _by_clock(reports: Sequence[Report]) -> Straggler | None:
    clocks = _means(reports, "sm_clock")
    if clocks is None:
        return None
    place = min(range(len(clocks)), key=lambda number: clocks[number])
    middle, farthest = _of_others(clocks, place)
    slower = 1 - clocks[place] / middle if middle else 0.0
    if slower < _SLOWER or middle - clocks[place] < _FARTHER * farthest:
        return None
    busy = next((means[place] for name in _BUSY if (means := _means(reports, name)) is not None), 1.0)
    why = f"its clock is {clocks[place] / 1e6:.0f} MHz, that of the others {middle / 1e6:.0f} MHz"
    return place, slower * min(busy, 1.0), why


def _by_work(reports: Sequence[Report]) -> Straggler | None:
    """Of two GPUs nobody knows which is the usual one."""
    candidates = ((name, _means(reports, name)) for name in _WORK)
    measured = next(((name, means) for name, means in candidates if means is not None and median(means) >= _LEAST_ACTIVE), None)
    if measured is None or len(reports) < 3:
        return None
    name, active = measured
    place = max(range(len(active)), key=lambda number: active[number])
    middle, farthest = _of_others(active, place)
    if active[place] < (1 + _MORE) * middle or active[place] - middle < _FARTHER * farthest:
        return None
    why = f"{name} {active[place]:.2f} but {middle:.2f}: they wait for it, or it has more of the work"
    return place, 1 - middle / active[place], why


def _of_others(values: Sequence[float], place: int) -> tuple[float, float]:
    """The middle of all but one, and how far from it the farthest of them is."""
    others = [value for number, value in enumerate(values) if number != place]
    middle = median(others)
    return middle, max(abs(value - middle) for value in others)


def _means(reports: Sequence[Report], metric: str) -> list[float] | None:
    """Of each GPU's profile; None where one lacks it."""
    profiles = [report.profile for report in reports]
    means = [profile.metrics[metric]["mean"] for profile in profiles if profile is not None and metric in profile.metrics]
    return means if len(means) == len(reports) else None
