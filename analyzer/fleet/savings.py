"""What a job costs where it runs, and what it would cost where it is cheapest.

A job pays for its share of the machine that it runs on: eight jobs of one GPU each on a machine of eight cost one machine
together, not eight. What is recommended is priced whole, as somebody would have to rent it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..answers.answer_schema import InstanceAnswer, RecommendationAnswer
from ..recommendation.verdict import LEAST_SAVING

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Saving:
    """Moving a job, for an hour of what it does now; USD per hour, below 0 where it would cost more.

    Attributes:
        usd_per_hour: what the job costs now: its share of what it runs on.
        to: where it is cheapest.
        ratio: share of the present cost that it would save there.
        low, high: 90 % interval of ``ratio``, from the prediction's.
    """

    usd_per_hour: float
    to: InstanceAnswer
    ratio: float
    low: float
    high: float

    @property
    def saved_usd_per_hour(self) -> float:
        """USD for each hour that the job runs now."""
        return self.ratio * self.usd_per_hour

    @property
    def sure(self) -> bool:
        """Whether it would save something at either end of the interval, is worth it, and is known to have the memory."""
        return self.low > 0 and self.high >= LEAST_SAVING and self.to.fits is True

    def usd(self, seconds: float) -> float:
        """What would have been saved of so many seconds of the job as it runs now."""
        return self.saved_usd_per_hour * seconds / _HOUR_S


def saving_of(recommendation: RecommendationAnswer) -> Saving | None:
    """Compare where a job runs with where it is cheapest; None where either is not known."""
    now, to = recommendation.current, recommendation.cheapest
    if now is None or to is None:
        return None
    usd_per_hour = now.usd_per_hour
    return Saving(
        usd_per_hour,
        to,
        _saved(to.ratio, to, usd_per_hour),
        _saved(to.ratio_high, to, usd_per_hour),
        _saved(to.ratio_low, to, usd_per_hour),
    )


def _saved(ratio: float, to: InstanceAnswer, usd_per_hour: float) -> float:
    return 1 - ratio * to.usd_per_hour / usd_per_hour
