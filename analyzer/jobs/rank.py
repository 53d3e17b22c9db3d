"""Which instance: every instance with its predicted time and cost, ranked, and why each other one is left out.

Each instance is priced whole: idle GPUs are paid for too. One whose price is stale comes after all whose price is fresh.
A job of several GPUs uses all that an instance has, and scales as measured jobs did in one machine. It takes no more instances
than it has machines now: the network between them is not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scipy.stats import norm

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.memory import MemoryNeed
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices import Instance, Market, Offer, is_stale, price_age
from epochcast.analyzer.jobs.whole_job import WholeJob
from epochcast.regressor import Catalog, Prediction
from epochcast.regressor.prediction import Estimate

Objective = Literal["cost", "time"]
Reason = Literal["memory", "deadline", "budget", "price", "full"]

MISSED: dict[Reason, str] = {
    "memory": "have too little GPU memory",
    "deadline": "miss the deadline",
    "budget": "exceed the budget",
    "price": "have no price in this market",
    "full": "are full",
}
"""Why instances are left out, in words that follow how many there are."""

ANY_CLOUD = "any"
"""Of a limit: also other clouds than the job's."""

_TAIL = float(norm.isf(0.05))  # from the middle to either end of a 90 % interval, in standard deviations


@dataclass(frozen=True)
class JobLimits:
    """What a recommendation must keep.

    Attributes:
        deadline_s: most seconds of the job, as expected (every placement has the chance to keep it).
        budget_usd: most USD of the job, as expected.
        regions: only these; empty: all. A price for region ``any`` holds in all of them.
        clouds: only these; ``any``: all; empty: that of the job where it is known, else all.
        market: which price is paid; instances without one are left out.
    """

    deadline_s: float | None = None
    budget_usd: float | None = None
    regions: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()
    market: Market = "on-demand"


@dataclass(frozen=True)
class LeftOut:
    """An instance in the wanted clouds and regions that does not keep a limit.

    Attributes:
        instance: where.
        reason: ``memory``, ``deadline``, ``budget``, ``full``, or ``price`` for none in the market.
        placement: what it would have been; None without a price.
    """

    instance: Instance
    reason: Reason
    placement: Placement | None = None


def rank_instances(
    predictions: Iterable[Prediction],
    instances: Sequence[Instance],
    catalog: Catalog,
    *,
    job_of: Callable[[Prediction], WholeJob] | None = None,
    on_gpus: Callable[[Prediction, int], Prediction] | None = None,
    need: MemoryNeed | None = None,
    limits: JobLimits | None = None,
    objective: Objective = "cost",
    gpus: int = 1,
    machines: int = 1,
    free: Mapping[Offer, int] | None = None,
) -> tuple[tuple[Placement, ...], tuple[LeftOut, ...]]:
    """Rank the instances whose GPU is among ``predictions``: those that keep the limits, best first, and those that do not.

    Args:
        predictions: of the job as it is now, on ``gpus`` GPUs in ``machines``.
        instances: what can be rented.
        catalog: their GPUs.
        job_of: the whole job by a prediction of it; without it, time and cost are those of one epoch (or step). Where the
            profile has no epoch seconds, instances rank by ratio (time) or ratio x price (cost), with no seconds or USD.
        on_gpus: a prediction for another number of GPUs in each machine; without it the job keeps its number.
        need: memory that the job takes on each GPU; the source's own GPU (the measured one) had it.
        limits, objective: what to keep, and what to rank by.
        gpus, machines: of the job now.
        free: how many of each offer can be had, 0 where it is missing; None: all of them.

    Raises:
        InputError: a deadline or a budget without seconds, or a region or cloud that no instance is of.
    """
    limits, day = limits or JobLimits(), price_age.today()
    by_gpu = {prediction.gpu: prediction for prediction in predictions}
    left_out: list[LeftOut] = []
    rows: list[Placement] = []
    for instance in _in_place(instances, limits):
        if instance.gpu not in by_gpu:
            continue
        prediction, price = by_gpu[instance.gpu], instance.price(limits.market)
        if price is None:
            left_out.append(LeftOut(instance, "price"))
            continue
        count = math.ceil(gpus / instance.count)
        if on_gpus is not None:
            count = min(count, machines)
            prediction = _in_machines(on_gpus(prediction, instance.count), machines, count)
        row = _row(prediction, instance, limits, count, price, job_of)
        row = replace(row, price_stale=is_stale(instance, day))
        if need is not None:
            row = replace(row, fits=need.fits(catalog[instance.gpu], here=prediction.route in ("measured", "scaled")))
        reason = missed(row, limits)
        if reason is None and free is not None and free.get(instance.offer, 0) < row.instances:
            reason = "full"
        if reason is None:
            rows.append(row)
        else:
            left_out.append(LeftOut(instance, reason, row))
    best = _front(comparable_prices(rows))
    marked = [replace(row, pareto=id(row) in best) for row in rows]
    value, other = (cost_of, time_of) if objective == "cost" else (time_of, cost_of)

    def order(row: Placement) -> tuple[bool, float, float, str, str, str]:
        instance = row.instance
        return row.price_stale, value(row), other(row), instance.cloud, instance.name, instance.region

    return tuple(sorted(marked, key=order)), tuple(left_out)


def chance_within(estimate: Estimate, limit: float) -> float:
    """Chance that what is estimated is at most ``limit``: normal in the logarithm, with a width of its own on either side."""
    ratio = math.log(limit) - math.log(estimate.value)
    end = estimate.high if ratio > 0 else estimate.low
    deviation = abs(math.log(end / estimate.value)) / _TAIL
    if deviation == 0:
        return float(ratio >= 0)
    return float(norm.cdf(ratio / deviation))


def _in_place(instances: Sequence[Instance], limits: JobLimits) -> list[Instance]:
    clouds = () if ANY_CLOUD in limits.clouds else limits.clouds
    for what, wanted, known in (
        ("cloud", clouds, {instance.cloud for instance in instances}),
        ("region", limits.regions, {instance.region for instance in instances} - {"any"}),
    ):
        for name in wanted:
            if name not in known:
                raise InputError(f"no instance of the price table has {what} {name!r}; it has {', '.join(sorted(known))}")
    return [
        instance
        for instance in instances
        if (not clouds or instance.cloud in clouds) and (not limits.regions or instance.region in (*limits.regions, "any"))
    ]


def _in_machines(prediction: Prediction, before: int, after: int) -> Prediction:
    """The prediction for another number of machines with as many GPUs in each, as if no network were between them."""
    if before == after:
        return prediction
    why = f"{after} machines instead of {before}, ignoring the network between them"
    return prediction.changed(math.log(before / after), 0.0, why=why)


def _row(
    prediction: Prediction,
    instance: Instance,
    limits: JobLimits,
    count: int,
    price: float,
    job_of: Callable[[Prediction], WholeJob] | None,
) -> Placement:
    job = None if job_of is None else job_of(prediction)
    if job is not None:
        seconds: Estimate | None = job.seconds
    elif prediction.seconds is None or prediction.low is None or prediction.high is None:
        seconds = None
    else:
        seconds = Estimate(prediction.seconds, prediction.low, prediction.high)
    row = Placement(instance, limits.market, count * price, prediction, seconds, job=job, instances=count)
    if row.usd is None or row.seconds is None:
        if limits.deadline_s is not None or limits.budget_usd is not None:
            raise InputError(
                "no epochs were found with enough confidence, so there are only ratios; --deadline and --budget need seconds"
            )
        return row
    return replace(
        row,
        deadline_chance=None if limits.deadline_s is None else chance_within(row.seconds, limits.deadline_s),
        budget_chance=None if limits.budget_usd is None else chance_within(row.usd, limits.budget_usd),
    )


def missed(row: Placement, limits: JobLimits) -> Reason | None:
    """The limit that the row is expected to break."""
    if row.fits is False:
        return "memory"
    if limits.deadline_s is not None and row.seconds is not None and row.seconds.value > limits.deadline_s:
        return "deadline"
    if limits.budget_usd is not None and row.usd is not None and row.usd.value > limits.budget_usd:
        return "budget"
    return None


def comparable_prices(rows: Sequence[Placement]) -> list[Placement]:
    """Those with a fresh price, with which a stale one cannot be compared; all of them where every price is stale."""
    return [row for row in rows if not row.price_stale] or list(rows)


def _front(rows: Sequence[Placement]) -> set[int]:
    """Ids of the rows that no other beats: none is as fast and as cheap, and better in one of the two."""
    front, newest = set(), (math.inf, math.inf)
    for row in sorted(rows, key=lambda row: (time_of(row), cost_of(row))):
        place = (cost_of(row), time_of(row))
        if place[0] < newest[0] or place == newest:
            front.add(id(row))
            newest = place
    return front


def time_of(row: Placement) -> float:
    """Expected seconds; without seconds the ratio, which ranks alike."""
    return row.prediction.ratio if row.seconds is None else row.seconds.value


def cost_of(row: Placement) -> float:
    """Expected USD; without seconds ratio x price, which ranks alike."""
    return row.prediction.ratio * row.usd_per_hour if row.usd is None else row.usd.value
