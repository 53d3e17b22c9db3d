"""What can be rented for a job of one or several GPUs: what `predict` says of it, against a price table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.cycles import Throughput, open_text
from epochcast.analyzer.jobs.decide import Decision, Trial, decide, trial_run
from epochcast.analyzer.jobs.emissions import add_emissions
from epochcast.analyzer.jobs.memory import MemoryNeed
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.predict import Target, equal_work_text, most_memory
from epochcast.analyzer.jobs.prices import Instance, price_age, stale_note
from epochcast.analyzer.jobs.prices.rented import Rented, rented
from epochcast.analyzer.jobs.rank import (
    MISSED,
    JobLimits,
    LeftOut,
    Objective,
    Ranking,
    comparable_prices,
    cost_of,
    rank_instances,
    time_of,
)
from epochcast.analyzer.jobs.sources import Source, find_slowest
from epochcast.analyzer.jobs.verdict import Verdict, verdict
from epochcast.analyzer.jobs.whole_job import WholeJob, Work, whole_job
from epochcast.analyzer.words import length
from epochcast.regressor import Prediction
from epochcast.regressor.profile import Unit

if TYPE_CHECKING:
    from epochcast.regressor.pipelines import Predictor


@dataclass(frozen=True)
class Renting:
    """What somebody would rent for a job.

    Attributes:
        objective: what to rank by.
        limits: what to keep.
        machines: that the job's GPUs are in now.
        data_parallel: a job of one GPU would run on several as well; one of several does.
        on: what the job runs on; None: the cheapest with its GPU is assumed.
    """

    objective: Objective = "cost"
    limits: JobLimits = field(default_factory=JobLimits)
    machines: int = 1
    data_parallel: bool = False
    on: Rented | None = None


@dataclass(frozen=True)
class Savings:
    """The first placements against what the job runs on now.

    Attributes:
        cost_ratio: share of the cost saved by the cheapest; below 0 where it costs more.
        time_ratio: share of the time saved by the fastest; below 0 where it takes longer.
        usd_per_unit: saved per epoch, cycle or step by the cheapest; None without seconds.
    """

    cost_ratio: float
    time_ratio: float
    usd_per_unit: float | None


@dataclass(frozen=True)
class Recommendation:
    """Where to run a job.

    Attributes:
        verdict: what to do.
        objective, limits: what placements are ranked by, and what they keep.
        memory: that the job takes on each GPU; None where that is not known.
        placements: what qualifies, best first.
        cheapest, fastest: the first by either objective; None where nothing qualifies.
        left_out: what does not.
        decision: how sure the first place is; None where nothing qualifies.
        on: what the job runs on now.
        current: the job there; None where that has no price to compare with.
        savings: against ``current``.
    """

    verdict: Verdict
    objective: Objective
    limits: JobLimits
    memory: MemoryNeed | None
    placements: tuple[Placement, ...]
    cheapest: Placement | None
    fastest: Placement | None
    left_out: tuple[LeftOut, ...]
    decision: Decision | None
    on: Rented
    current: Placement | None
    savings: Savings | None


def recommend_job(
    sources: Sequence[Source],
    targets: Sequence[Target],
    predictor: Predictor,
    instances: Sequence[Instance],
    renting: Renting,
    *,
    work: Work | None,
    need: MemoryNeed | None,
    grams_per_kwh: float | None = None,
    rate: Throughput | None = None,
) -> tuple[Recommendation, list[str]]:
    """Rank what can be rented for a job, which is as slow as its slowest GPU; only `answer_job` calls it.

    Args:
        sources, targets: of `predict_job`, for all GPUs of the catalogue.
        predictor: that made them.
        instances: what can be rented.
        renting: what to keep.
        work: what is still to be done; None ranks one epoch (or step).
        need: memory per GPU; None takes the most that a source used.
        grams_per_kwh: of the electricity everywhere [g CO2e/kWh]; None: that of each region, where it is known.
        rate: of the job here.

    Returns:
        The recommendation, and a sentence on each thing that a reader should know.

    Raises:
        InputError: as `rank_instances` and `whole_job` do.
    """
    gpus, objective, limits, machines = sources[0].profile.gpus, renting.objective, renting.limits, renting.machines
    cycles = [source.cycle for source in sources if source.cycle is not None and source.cycle.k_open]
    if work is not None and cycles:
        raise InputError(
            f"--epochs {work.epochs} cannot be costed: the telemetry shows a cycle of {length(cycles[0].period_s)}"
            f"{open_text(cycles[0])}; leave out --epochs for the cost of a cycle"
        )
    by_gpu = {target.gpu: target for target in targets}
    need = need or most_memory(sources)

    def job_of(prediction: Prediction) -> WholeJob:
        assert work is not None
        return whole_job(sources[by_gpu[prediction.gpu].slowest].profile, prediction, work)

    def run_on(row: Placement) -> Trial:
        assert work is not None
        profile = sources[by_gpu[row.instance.gpu].slowest].profile
        return trial_run(profile, row, epochs=work.epochs, startup_s=work.startup_s)

    def complete(row: Placement, gpus: int) -> Placement:
        throughput = None if rate is None else rate.times_as_long(row.prediction.ratio)
        return replace(add_emissions(row, by_gpu.get(row.instance.gpu), gpus, grams_per_kwh), throughput=throughput)

    job = job_of if work else None
    ranking = rank_instances(
        [replace(target, gpus=math.ceil(gpus / machines)) for target in targets],
        instances,
        predictor.catalog,
        job_of=job,
        on_gpus=predictor.on_gpus if gpus > 1 or renting.data_parallel else None,
        need=need,
        limits=limits,
        objective=objective,
        gpus=gpus,
        machines=machines,
    )
    ranking = replace(ranking, placements=tuple(complete(row, row.gpus) for row in ranking.placements))
    decision = decide(ranking.placements, objective, run_on if work else None)
    unit, here = sources[0].profile.unit, find_slowest(sources)
    on = renting.on or rented(here.gpu.name, gpus, instances, machines=machines, market=limits.market)
    current = None
    if on.instance is not None:
        there = JobLimits(market=on.market)
        now = rank_instances(targets, [on.instance], predictor.catalog, job_of=job, limits=there, gpus=gpus).cheapest
        gpu = predictor.catalog[on.instance.gpu]
        fits = None if need is None else need.fits(gpu, here=any(source.gpu == gpu for source in sources))
        current = now and complete(replace(now, usd_per_hour=on.share * now.usd_per_hour, fits=fits), gpus)
    is_now_stale = current is not None and current.price_stale and not (decision and decision.first.price_stale)
    if is_now_stale:
        current = None  # nothing can be compared with it
    notes = _notes(sources, ranking, need, on, limits, unit, is_now_stale=is_now_stale)
    what = verdict(decision, current, objective, unit or "epoch", limits, comparable_prices(ranking.placements))
    if decision is not None and predictor.pipeline == "paper" and decision.first.prediction.by_data_sheet:
        why = f"the paper's trees know only {', '.join(predictor.training['gpus'])}, and cannot extrapolate"
        what = Verdict("measure", f"Cannot tell yet: measure {decision.first.instance.gpu} first", why)
    if decision is not None and decision.first.price_stale:
        what = replace(what, text=f"{what.text} (by prices older than a year: there are no newer ones)")
    notes += _of_age(ranking.placements, objective)
    cheapest, fastest = ranking.cheapest, ranking.fastest
    savings = _savings(current, cheapest, fastest, here.profile.epoch_s)
    recommendation = Recommendation(
        what, objective, limits, need, ranking.placements, cheapest, fastest, ranking.left_out, decision, on, current, savings
    )
    return recommendation, notes


def _savings(
    now: Placement | None, cheapest: Placement | None, fastest: Placement | None, epoch_s: float | None
) -> Savings | None:
    if now is None or cheapest is None or fastest is None:
        return None
    per_hour = now.prediction.ratio * now.usd_per_hour - cheapest.prediction.ratio * cheapest.usd_per_hour
    per_unit = None if epoch_s is None else per_hour * epoch_s / 3600
    return Savings(1 - cost_of(cheapest) / cost_of(now), 1 - time_of(fastest) / time_of(now), per_unit)


def _of_age(rows: Sequence[Placement], objective: Objective) -> list[str]:
    """A sentence on stale prices where they would have decided, or had to."""
    value = cost_of if objective == "cost" else time_of
    if not any(row.price_stale and value(row) <= value(rows[0]) for row in rows):
        return []
    note = stale_note([row.instance for row in rows], price_age.today())
    return [] if note is None else [note]


def _notes(
    sources: Sequence[Source],
    ranking: Ranking,
    need: MemoryNeed | None,
    on: Rented,
    limits: JobLimits,
    unit: Unit | None,
    *,
    is_now_stale: bool,
) -> list[str]:
    rows, gpus, notes = ranking.placements, sources[0].profile.gpus, list(on.notes)
    if not rows:
        reasons = [excluded.reason for excluded in ranking.left_out]
        why = ", ".join(f"{reasons.count(reason)} {MISSED[reason]}" for reason in dict.fromkeys(reasons))
        notes.append(f"no instance qualifies{f': {why}' if why else ''}")
    if any(row.gpus != gpus for row in rows):
        notes.append(
            f"the job has {gpus} GPU{'s' * (gpus > 1)} now and would use all GPUs of an instance, scaling as measured jobs did "
            "within one machine: each GPU holds the whole model and keeps its batch, so the total batch changes"
            f"{equal_work_text(unit)}"
        )
    if any(row.instances > 1 for row in rows):
        notes.append("the network between instances is assumed to be as fast as between the job's machines now")
    if need is None:
        notes.append("the job's GPU memory need is unknown, so an instance may be too small")
    elif need.reserved:
        notes.append("nearly all GPU memory is in use, perhaps only reserved: the job may also fit on smaller GPUs")
    if on.instance is not None and is_now_stale:
        where = f"{on.instance.cloud} {on.instance.name}"
        notes.append(f"the job runs on {where}, whose price is older than a year, so savings are not known")
    elif on.instance is not None:
        if len({source.gpu.name for source in sources}) > 1:
            notes.append(f"the current cost counts all GPUs of the job as {on.instance.gpu}, its slowest")
        if on.assumed:
            notes.append(f"compared with {on.instance.cloud} {on.instance.name}, the cheapest with the job's GPU")
        if on.market != limits.market:
            notes.append(f"{on.instance.name} has no {limits.market} price, so its {on.market} price is used")
    elif not on.notes:
        notes.append("no instance in the price table has the job's GPU, so savings are unknown")
    if rows and limits.market == "spot":
        notes.append("spot: the cloud can reclaim an instance; the figures do not include the time lost")
    return notes
