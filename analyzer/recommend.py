"""Which instance: every instance of the price table with its predicted time and cost, ranked.

One GPU of an instance runs the job, as on the source, and the instance is priced whole (its idle GPUs are paid for too).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..regressor import Prediction
from ..regressor.job import Job
from .errors import InputError
from .prices import Instance

Objective = Literal["cost", "time"]
_HOUR_S = 3600.0


@dataclass(frozen=True)
class Recommendation:
    """One instance for a job or one epoch: seconds and USD with their 90 % interval, None where only the ratio is known."""

    instance: Instance
    ratio: float
    seconds: float | None
    seconds_low: float | None
    seconds_high: float | None
    why: str

    @property
    def usd(self) -> float | None:
        """Cost of the job on this instance [USD]."""
        return None if self.seconds is None else self.seconds / _HOUR_S * self.instance.usd_per_hour

    def to_json(self) -> dict[str, Any]:
        """The keys of the command contract, and the price's provenance."""
        per_second = self.instance.usd_per_hour / _HOUR_S
        return {
            "instance": self.instance.name,
            "cloud": self.instance.cloud,
            "region": self.instance.region,
            "gpu": self.instance.gpu,
            "gpu_count": self.instance.count,
            "ratio": self.ratio,
            "seconds": self.seconds,
            "seconds_low": self.seconds_low,
            "seconds_high": self.seconds_high,
            "usd": self.usd,
            "usd_low": None if self.seconds_low is None else self.seconds_low * per_second,
            "usd_high": None if self.seconds_high is None else self.seconds_high * per_second,
            "usd_per_hour": self.instance.usd_per_hour,
            "price_source": self.instance.source,
            "price_date": self.instance.date.isoformat(),
            "why": self.why,
        }


def recommend(
    predictions: Iterable[Prediction],
    instances: Sequence[Instance],
    *,
    jobs: Mapping[str, Job] | None = None,
    objective: Objective = "cost",
    deadline_s: float | None = None,
    budget_usd: float | None = None,
) -> list[Recommendation]:
    """Instances that meet the deadline [s] and the budget [USD], best first by ``objective``.

    ``jobs`` has the whole job on each GPU of ``predictions``; without it, time and cost are those of one epoch (or step).
    Where the profile has no epoch seconds, instances rank by ratio (time) or ratio x price (cost), with no seconds or USD;
    a deadline or a budget then raises InputError, as does one that is not above 0.
    """
    for name, limit in (("--deadline", deadline_s), ("--budget", budget_usd)):
        if limit is not None and not limit > 0:
            raise InputError(f"{name} is {limit}; it must be above 0")
    by_gpu = {prediction.gpu: prediction for prediction in predictions}
    rows = [_row(by_gpu[instance.gpu], instance, jobs) for instance in instances if instance.gpu in by_gpu]
    if (deadline_s or budget_usd) and any(row.seconds is None for row in rows):
        raise InputError("no epochs were found in this trace, so there are only ratios: --deadline and --budget need seconds")
    if deadline_s is not None:
        rows = [row for row in rows if row.seconds is not None and row.seconds <= deadline_s]
    if budget_usd is not None:
        rows = [row for row in rows if row.usd is not None and row.usd <= budget_usd]
    return sorted(rows, key=_by_cost if objective == "cost" else _by_time)


def _row(prediction: Prediction, instance: Instance, jobs: Mapping[str, Job] | None) -> Recommendation:
    if jobs is None:
        seconds, low, high = prediction.seconds, prediction.low, prediction.high
    else:
        whole = jobs[prediction.gpu].seconds
        seconds, low, high = whole.value, whole.low, whole.high
    return Recommendation(instance, prediction.ratio, seconds, low, high, prediction.why)


def _by_cost(row: Recommendation) -> tuple[float, float]:
    return row.ratio * row.instance.usd_per_hour if row.usd is None else row.usd, row.ratio


def _by_time(row: Recommendation) -> tuple[float, float]:
    return row.ratio, row.instance.usd_per_hour
