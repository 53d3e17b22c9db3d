"""What figures show of a recommendation: time and cost with their intervals, be they only ratios, and a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...regressor.prediction import Estimate

if TYPE_CHECKING:
    from ..recommendation import Recommendation

_LONGEST_NAME = 32  # a price file can say anything


def time_interval(row: Recommendation) -> Estimate:
    """Seconds of the job; without them the ratio to the source GPU."""
    if row.seconds is not None:
        return row.seconds
    return Estimate(row.prediction.ratio, row.prediction.ratio_low, row.prediction.ratio_high)


def cost_interval(row: Recommendation) -> Estimate:
    """USD of the job; without seconds USD for what takes the source GPU an hour."""
    return time_interval(row).times(row.usd_per_hour) if row.usd is None else row.usd


def short_name(row: Recommendation) -> str:
    """Name of the instance, cut where it would crowd out the figure."""
    name = row.instance.name
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
