"""Which instance: every instance of the price table with its predicted time and cost, ranked.

One GPU of an instance runs the job, as on the source, and the instance is priced whole (its idle GPUs are paid for too).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ...regressor import Prediction
from ...regressor.estimate import Estimate
from ...regressor.job import Job
from ..errors import InputError
from ..instances import Instance
from .recommendation import Recommendation

Objective = Literal["cost", "time"]


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
        rows = [row for row in rows if row.seconds is not None and row.seconds.value <= deadline_s]
    if budget_usd is not None:
        rows = [row for row in rows if row.usd is not None and row.usd.value <= budget_usd]
    return sorted(rows, key=_by_cost if objective == "cost" else _by_time)


def _row(prediction: Prediction, instance: Instance, jobs: Mapping[str, Job] | None) -> Recommendation:
    if jobs is not None:
        seconds: Estimate | None = jobs[prediction.gpu].seconds
    elif prediction.seconds is None or prediction.low is None or prediction.high is None:
        seconds = None
    else:
        seconds = Estimate(prediction.seconds, prediction.low, prediction.high)
    price = instance.price("on-demand")
    assert price is not None
    return Recommendation(instance, "on-demand", price, prediction.ratio, seconds, None, False, prediction.why)


def _by_cost(row: Recommendation) -> tuple[float, float]:
    return row.ratio * row.usd_per_hour if row.usd is None else row.usd.value, row.ratio


def _by_time(row: Recommendation) -> tuple[float, float]:
    return row.ratio, row.usd_per_hour
