"""Which instance: every instance with its predicted time and cost, ranked, and why each other one is left out.

Each instance is priced whole: idle GPUs are paid for too. One whose price is stale comes after all whose price is fresh.
A job of several GPUs uses all that an instance has, and scales as measured jobs did in one machine. It takes no more instances
than it has machines now: the network between them is not modelled.

Of emissions count what the GPUs draw, as their sensors show it: neither the host, nor cooling and losses of the building (PUE),
nor the making of the hardware. Of the grid count operational emissions, no contracts of a cloud for green power: Google
publishes them for the places of its regions (``grids.csv``); regions of other clouds in the same place take the same figure.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Literal

from scipy.stats import norm

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.cycles import Throughput
from epochcast.analyzer.jobs.predict import MemoryNeed, Target, grams_of
from epochcast.analyzer.jobs.prices import Instance, Market, Offer
from epochcast.regressor import Catalog, Prediction, Profile
from epochcast.regressor.job import estimate_job
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

# Of a test run, enough that the detector finds its epochs (it takes 4.5 on average), and no less than a minute of them.
_RUN_EPOCHS = 5
_RUN_S = 60.0

# By choice: what launching an instance takes at least.
_LAUNCH_S = 300.0


@dataclass(frozen=True)
class Work:
    """What is still to be done, as the user knows it.

    Attributes:
        epochs: epochs (or steps, by the profile's unit) that remain.
        startup_s: seconds from the order of an instance to the first epoch (boot, image, data); paid for, and the same
            everywhere.
        name: what it is, for people; empty: so many epochs, cycles or steps.
    """

    epochs: int
    startup_s: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class WholeJob:
    """Seconds of a whole job on one GPU, by what they are spent on.

    Attributes:
        epochs_s: in epochs; the only part that another GPU changes.
        stall_s: in stalls among the epochs, as the trace shows them.
        checkpoint_s: waiting for checkpoints, as the trace shows.
        startup_s: before the first epoch.
    """

    epochs_s: Estimate
    stall_s: float
    checkpoint_s: float
    startup_s: float

    @property
    def fixed_s(self) -> float:
        """What stays the same on every GPU [s]."""
        return self.stall_s + self.checkpoint_s + self.startup_s

    @property
    def seconds(self) -> Estimate:
        """All of it."""
        return self.epochs_s.plus(Estimate(self.fixed_s, self.fixed_s, self.fixed_s))


@dataclass(frozen=True)
class CarbonIntensity:
    """``grams_per_kwh`` [g CO2e/kWh], as ``source`` has it."""

    grams_per_kwh: float
    source: str


@dataclass(frozen=True)
class Placement:
    """A job (or one epoch, cycle or step of it) on one kind of instance, in one market.

    Attributes:
        instance: where to run.
        market: which of the instance's prices ``usd_per_hour`` is.
        usd_per_hour: of all ``instances``, each whole: idle GPUs are paid for too.
        prediction: of one epoch, cycle or step there. The interval of its ratio is what separates two GPUs: an error in the
            source's own seconds is the same for all.
        seconds: of the job with everything that is paid for, 90 % interval; None where only the ratio is known.
        fits: whether the GPU has the memory that the job needs; None where that is not known.
        pareto: no other placement is both faster and cheaper.
        deadline_chance, budget_chance: chance to keep the limit that was given; None without one.
        job: what ``seconds`` is spent on; None for one epoch.
        instances: how many of them the job takes.
        price_stale: the price is older than a year, and ranks after all newer ones.
        joules: energy of the GPUs for what ``seconds`` is of; None without power readings.
        grams_co2e: carbon dioxide equivalents of ``joules``, without host and cooling; None where the grid is not known.
        carbon: of the grid, or what was given; None where it is not known.
        throughput: there; None where the job's is not known.
        gpus: of all instances that the job uses.
        usd: cost of the job there, 90 % interval; None without ``seconds``.
    """

    instance: Instance
    market: Market
    usd_per_hour: float
    prediction: Prediction
    seconds: Estimate | None
    fits: bool | None = None
    pareto: bool = False
    deadline_chance: float | None = None
    budget_chance: float | None = None
    job: WholeJob | None = None
    instances: int = 1
    price_stale: bool = False
    joules: Estimate | None = None
    grams_co2e: Estimate | None = None
    carbon: CarbonIntensity | None = None
    throughput: Throughput | None = None
    gpus: int = field(init=False, default=0)
    usd: Estimate | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        usd = None if self.seconds is None else self.seconds.times(self.usd_per_hour / 3600)
        object.__setattr__(self, "usd", usd)
        object.__setattr__(self, "gpus", self.instances * self.prediction.gpus)

    @property
    def title(self) -> str:
        """For people: ``2 x aws g6e.xlarge (2 x L40S)``."""
        count, gpus = f"{self.instances} x " * (self.instances > 1), f"{self.gpus} x " * (self.gpus > 1)
        return f"{count}{self.instance.cloud} {self.instance.name} ({gpus}{self.instance.gpu})".strip()

    @property
    def hardware(self) -> tuple[str, int]:
        """Where the job takes equally long: the GPU and how many of them."""
        return self.instance.gpu, self.gpus


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
    limits = limits or JobLimits()
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
        here = prediction.route in ("measured", "scaled")
        fits = None if need is None else need.fits(catalog[instance.gpu], here=here)
        row = _row(prediction, instance, limits, count * price, job_of, fits, count)
        reason = missed(row, limits)
        if reason is None and free is not None and free.get(instance.offer, 0) < row.instances:
            reason = "full"
        if reason is None:
            rows.append(row)
        else:
            left_out.append(LeftOut(instance, reason, row))
    best = _front(comparable_prices(rows))
    marked = [replace(row, pareto=id(row) in best) for row in rows]
    value, other = figures_of(objective)

    def order(row: Placement) -> tuple[bool, float, float, str, str, str]:
        instance = row.instance
        return row.price_stale, value(row), other(row), instance.cloud, instance.name, instance.region

    return tuple(sorted(marked, key=order)), tuple(left_out)


def whole_job(profile: Profile, prediction: Prediction, work: Work) -> WholeJob:
    """The job of ``profile`` on the prediction's GPU.

    Pauses take as long there as on the source: disks, networks and people do not get faster with the GPU.

    Raises:
        InputError: ``work.epochs`` is out of bounds, or no epochs were found.
    """
    job = estimate_job(profile, prediction, work.epochs)
    wait_s = work.epochs * min(profile.wait_share * (profile.epoch_s or 0.0), prediction.low or 0.0)
    fixed_s = job.stall_s + wait_s
    epochs_s = job.seconds.plus(Estimate(-fixed_s, -fixed_s, -fixed_s))
    return WholeJob(epochs_s, job.stall_s, wait_s, work.startup_s)


def plan_trial(profile: Profile, row: Placement, work: Work) -> tuple[int, float]:
    """A test run of the job on the instance of ``row``, where a prediction is not certain: epochs, and seconds with the start.

    Five epochs, a minute of them, or all of ``work``, whichever is less; the first one included.
    """
    prediction = row.prediction
    assert prediction.seconds is not None
    epochs = min(max(_RUN_EPOCHS, math.ceil(_RUN_S / prediction.seconds)), work.epochs)
    first_s = prediction.seconds if profile.first_epoch_s is None else profile.first_epoch_s * prediction.ratio
    return epochs, max(work.startup_s, _LAUNCH_S) + first_s + (epochs - 1) * prediction.seconds


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
    usd_per_hour: float,
    job_of: Callable[[Prediction], WholeJob] | None,
    fits: bool | None,
    count: int,
) -> Placement:
    job, seconds = None if job_of is None else job_of(prediction), None
    if job is not None:
        seconds = job.seconds
    elif prediction.seconds is not None and prediction.low is not None and prediction.high is not None:
        seconds = Estimate(prediction.seconds, prediction.low, prediction.high)
    elif limits.deadline_s is not None or limits.budget_usd is not None:
        raise InputError(
            "no epochs were found with enough confidence, so there are only ratios; --deadline and --budget need seconds"
        )
    row = Placement(instance, limits.market, usd_per_hour, prediction, seconds, fits, job=job, instances=count)
    deadline, budget = (
        None if limit is None or estimate is None else chance_within(estimate, limit)
        for estimate, limit in ((row.seconds, limits.deadline_s), (row.usd, limits.budget_usd))
    )
    return replace(row, deadline_chance=deadline, budget_chance=budget, price_stale=instance.is_stale)


def missed(row: Placement, limits: JobLimits) -> Reason | None:
    """The limit that the row is expected to break."""
    if row.fits is False:
        return "memory"
    if limits.deadline_s is not None and row.seconds is not None and row.seconds.value > limits.deadline_s:
        return "deadline"
    if limits.budget_usd is not None and row.usd is not None and row.usd.value > limits.budget_usd:
        return "budget"
    return None


def missed_text(left_out: Sequence[LeftOut]) -> str:
    """``45 exceed the budget, 3 have too little GPU memory``."""
    reasons = Counter(excluded.reason for excluded in left_out)
    return ", ".join(f"{number} {MISSED[reason]}" for reason, number in reasons.items())


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


def figures_of(objective: Objective) -> tuple[Callable[[Placement], float], Callable[[Placement], float]]:
    """What is ranked by, and what decides among equals."""
    return (cost_of, time_of) if objective == "cost" else (time_of, cost_of)


def time_of(row: Placement) -> float:
    """Expected seconds; without seconds the ratio, which ranks alike."""
    return row.prediction.ratio if row.seconds is None else row.seconds.value


def cost_of(row: Placement) -> float:
    """Expected USD; without seconds ratio x price, which ranks alike."""
    return row.prediction.ratio * row.usd_per_hour if row.usd is None else row.usd.value


def of_region(cloud: str, region: str) -> CarbonIntensity | None:
    """Of the grid of a cloud's region; None where it is not known."""
    return _grids().get((cloud.lower(), region.lower()))


def add_emissions(row: Placement, target: Target | None, gpus: int, grams_per_kwh: float | None) -> Placement:
    """The placement with the energy of all of its time, as if it drew the power of an epoch, and the carbon of that.

    Args:
        row: where.
        target: the job on its GPU; None where nothing is known of it.
        gpus: that the job uses there.
        grams_per_kwh: of the electricity everywhere; None: that of the instance's region counts.
    """
    given = None if grams_per_kwh is None else CarbonIntensity(grams_per_kwh, "given")
    row = replace(row, carbon=given or of_region(row.instance.cloud, row.instance.region))
    if target is None or target.energy is None or target.energy.joules is None or target.seconds is None or row.seconds is None:
        return row
    joules = target.energy.joules.times(gpus / target.gpus * row.seconds.value / target.seconds)
    return replace(row, joules=joules, grams_co2e=grams_of(joules, None if row.carbon is None else row.carbon.grams_per_kwh))


@cache
def _grids() -> Mapping[tuple[str, str], CarbonIntensity]:
    text = resources.files(__package__).joinpath("grids.csv").read_text(encoding="utf-8")
    return {
        (row["cloud"], row["region"]): CarbonIntensity(float(row["grams_per_kwh"]), f"{row['source']}, {row['year']}")
        for row in csv.DictReader(text.splitlines())
    }
