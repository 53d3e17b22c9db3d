"""What can be rented for a job of one or several GPUs: what `predict` says of it, against a price table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epochcast.analyzer.jobs.cycles import Throughput
from epochcast.analyzer.jobs.predict import MemoryNeed, Target, equal_work_text, interruption_note, memory_of_job
from epochcast.analyzer.jobs.prices import Instance, Offer, Rented, rented_now, stale_note
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.rank import (
    JobLimits,
    LeftOut,
    Objective,
    Placement,
    WholeJob,
    Work,
    add_emissions,
    comparable_prices,
    cost_of,
    figures_of,
    missed_text,
    plan_trial,
    rank_instances,
    time_of,
    whole_job,
)
from epochcast.analyzer.jobs.sources import Source, find_slowest
from epochcast.analyzer.jobs.verdict import Terms, Verdict, judge
from epochcast.regressor import Prediction

if TYPE_CHECKING:
    from epochcast.regressor.pipelines import Predictor


@dataclass(frozen=True)
class Savings:
    """Where the job should run against what it runs on now; 0 where it should stay.

    Attributes:
        cost_ratio, time_ratio: share that is saved; below 0 where it costs more, or takes longer.
    """

    cost_ratio: float
    time_ratio: float


@dataclass(frozen=True)
class Recommendation:
    """Where to run a job.

    Attributes:
        verdict: what to do.
        objective, limits: what placements are ranked by, and what they keep.
        memory: that the job takes on each GPU; None where that is not known.
        placements: what qualifies, best first.
        left_out: what does not.
        on: what the job runs on now.
        current: the job there, at its share of the price; None where that has no price.
        savings: None without ``current``.
    """

    verdict: Verdict
    objective: Objective
    limits: JobLimits
    memory: MemoryNeed | None
    placements: tuple[Placement, ...]
    left_out: tuple[LeftOut, ...]
    on: Rented
    current: Placement | None
    savings: Savings | None


def recommend_job(
    sources: Sequence[Source],
    targets: Sequence[Target],
    predictor: Predictor,
    instances: Sequence[Instance],
    question: JobQuestion,
    wanted: Sequence[str] | None,
    *,
    on: Rented | None,
    free: Mapping[Offer, int] | None,
    work: Work | None,
    rate: Throughput | None,
    untimed: str | None,
) -> tuple[Recommendation, list[str]]:
    """Rank what can be rented for a job, which is as slow as its slowest GPU; only `answer_job`, which has the rest, calls it.

    ``targets`` are of `predict_job`, for all GPUs of the catalogue; ``wanted``: GPUs to rank only these. Without ``work``, for
    which ``untimed`` says why, ratios are ranked. Returns a sentence on each thing that a reader should know, too. Raises
    InputError as `rank_instances` and `whole_job` do.
    """
    need = memory_of_job(sources, question)
    gpus, machines = sources[0].profile.gpus, question.machines
    objective, limits = question.objective or "cost", question.limits
    by_gpu = {target.gpu: target for target in targets}
    here = find_slowest(sources)
    on = on or rented_now(here.gpu.name, gpus, instances, machines, limits.market, limits.clouds, question.usd_per_hour_now)
    if not limits.clouds and on.instance is not None and not on.assumed and on.instance.cloud:
        limits = replace(limits, clouds=(on.instance.cloud,))

    def job_of(prediction: Prediction) -> WholeJob:
        assert work is not None
        return whole_job(sources[by_gpu[prediction.gpu].slowest].profile, prediction, work)

    def trial(row: Placement) -> tuple[int, float]:
        assert work is not None
        return plan_trial(sources[by_gpu[row.instance.gpu].slowest].profile, row, work)

    def complete(row: Placement, gpus: int) -> Placement:
        throughput = None if rate is None else rate.times_as_long(row.prediction.ratio)
        return replace(add_emissions(row, by_gpu.get(row.instance.gpu), gpus, question.carbon_intensity), throughput=throughput)

    job = job_of if work else None
    qualifying, left_out = rank_instances(
        [replace(target, gpus=math.ceil(gpus / machines)) for target in targets if wanted is None or target.gpu in wanted],
        instances,
        predictor.catalog,
        job_of=job,
        on_gpus=predictor.on_gpus if gpus > 1 or question.data_parallel else None,
        need=need,
        limits=limits,
        objective=objective,
        gpus=gpus,
        machines=machines,
        free=free,
    )
    rows = tuple(complete(row, row.gpus) for row in qualifying)
    current = None
    if on.instance is not None:
        there = JobLimits(market=on.market)
        each = math.ceil(gpus / math.ceil(gpus / on.instance.count))
        here_now = [replace(target, gpus=each) for target in targets]
        (now,), _ = rank_instances(here_now, [on.instance], predictor.catalog, job_of=job, limits=there, gpus=gpus)
        gpu = predictor.catalog[on.instance.gpu]
        fits = None if need is None else need.fits(gpu, here=any(source.gpu == gpu for source in sources))
        current = complete(replace(now, usd_per_hour=on.share * now.usd_per_hour, fits=fits), gpus)
    own = next((target for target in targets if target.gpu == here.gpu.name), None)
    terms = Terms(
        objective,
        limits,
        (untimed or "") if work is None else work.name,
        here=job_of(own).seconds.value if work and own else 1.0,
        assumed=on.assumed,
        at_most_slower=question.at_most_slower,
        switch_usd=question.switch_usd,
        epochs=0 if work is None else work.epochs,
        unit=here.unit,
        timed=here.profile.unit in ("epoch", "step"),
        trial=trial if work else None,
    )
    verdict = judge(comparable_prices(rows), current, terms)
    if not rows:
        why = f"{missed_text(left_out)}; loosen a limit" if left_out else "the price table has none with these GPUs"
        verdict = replace(verdict, text=f"{verdict.text}: {why}")
    best = verdict.best
    elsewhere = [row for row in rows if row.instance.gpu != here.gpu.name] if predictor.pipeline == "paper" else []
    if elsewhere and all(row.prediction.by_data_sheet for row in elsewhere):
        best = elsewhere[0]
        why = f"the paper's trees know only {', '.join(predictor.training['gpus'])}, and cannot extrapolate"
        verdict = replace(
            verdict, action="measure", text=f"Cannot tell yet: measure {best.instance.gpu} first", why=why, best=best
        )
    notes = _notes(sources, rows, need, on, limits)
    value, _ = figures_of(objective)
    if any(row.price_stale and value(row) <= value(rows[0]) for row in rows):  # a stale price would have decided, or had to
        notes += stale_note(row.instance for row in rows)
    full = [excluded.placement for excluded in left_out if excluded.reason == "full" and excluded.placement]
    if full:
        ideal = judge(comparable_prices([*rows, *full]), current, terms).best
        if ideal is not None and ideal in full:
            notes.insert(0, f"if it were free, {ideal.instance.name} ({ideal.instance.gpu}) would be best")
    savings = None
    if current is not None and best is not None:
        savings = Savings(1 - cost_of(best) / cost_of(current), 1 - time_of(best) / time_of(current))
    return Recommendation(verdict, objective, limits, need, rows, left_out, on, current, savings), notes


def _notes(
    sources: Sequence[Source],
    rows: Sequence[Placement],
    need: MemoryNeed | None,
    on: Rented,
    limits: JobLimits,
) -> list[str]:
    gpus, unit, notes = sources[0].profile.gpus, sources[0].profile.unit, list(on.notes)
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
    if on.instance is not None:
        if len({source.gpu.name for source in sources}) > 1:
            notes.append(f"the current cost counts all GPUs of the job as {on.instance.gpu}, its slowest")
        if on.assumed:
            notes.append(f"compared with {on.instance.cloud} {on.instance.name}, the cheapest with the job's GPU")
        if on.share < 1:
            notes.append(f"the job pays for its {gpus} of the {on.instance.count} GPUs of {on.instance.name}, not for all")
        if on.market != limits.market:
            notes.append(f"{on.instance.name} has no {limits.market} price, so its {on.market} price is used")
    elif not on.notes:
        notes.append("no instance in the price table has the job's GPU, so savings are unknown")
    if not limits.clouds and len({row.instance.cloud for row in rows}) > 1:
        notes.append("the job's cloud is not known, so all clouds are compared; name one")
    if rows and limits.market == "spot":
        notes.append(interruption_note(sources))
    return notes
