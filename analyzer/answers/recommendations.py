"""What can be rented for a job of one or several GPUs: what `predictions` says of it, against a price table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from epochcast.analyzer.answers.cycles import open_text
from epochcast.analyzer.answers.predictions import Answer, most_memory, of_equal_work
from epochcast.analyzer.answers.sources import Source, slowest_of
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.instances import Instance, price_age, stale_note
from epochcast.analyzer.instances.rented import Rented, rented
from epochcast.analyzer.recommendation import (
    Decision,
    JobLimits,
    MemoryNeed,
    Objective,
    Ranking,
    Recommendation,
    WholeJob,
    Work,
    comparable_prices,
    decide,
    recommend,
    trial_run,
    whole_job,
)
from epochcast.analyzer.recommendation.experiment import Trial
from epochcast.analyzer.recommendation.rank import MISSED, cost_of, time_of
from epochcast.analyzer.recommendation.verdict import Verdict, verdict
from epochcast.analyzer.words import length
from epochcast.regressor import Prediction
from epochcast.regressor.prediction import by_data_sheet
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
class Recommended:
    """Instances for a job.

    Attributes:
        renting: the request.
        ranking: all instances, and what is left out.
        decision: how sure the first place is; None without recommendations.
        need: GPU memory that the job takes on each GPU; None where that is not known.
        gpus: of the job.
        on: what it runs on now.
        current: the job there; None where that has no price.
        verdict: what to do.
        notes: a sentence on each thing that a reader should know.
    """

    renting: Renting
    ranking: Ranking
    decision: Decision | None
    need: MemoryNeed | None
    gpus: int
    on: Rented
    current: Recommendation | None
    verdict: Verdict
    notes: tuple[str, ...]


def recommend_job(
    sources: Sequence[Source],
    answers: Sequence[Answer],
    predictor: Predictor,
    instances: Sequence[Instance],
    renting: Renting,
    *,
    work: Work | None,
    need: MemoryNeed | None,
) -> Recommended:
    """Rank what can be rented for a job, which is as slow as its slowest GPU; only `answer_job` calls it.

    Args:
        sources, answers: of `predict_job`, for all GPUs of the catalogue.
        predictor: that made them.
        instances: what can be rented.
        renting: what to keep.
        work: what is still to be done; None ranks one epoch (or step).
        need: memory per GPU; None takes the most that a source used.

    Raises:
        InputError: as `recommend` and `whole_job` do.
    """
    gpus, objective, limits, machines = sources[0].profile.gpus, renting.objective, renting.limits, renting.machines
    cycles = [source.cycle for source in sources if source.cycle is not None and source.cycle.k_open]
    if work is not None and cycles:
        raise InputError(
            f"--epochs {work.epochs} cannot be costed: the telemetry shows a cycle of {length(cycles[0].period_s)}"
            f"{open_text(cycles[0])}; leave out --epochs for the cost of a cycle"
        )
    slowest = {answer.prediction.gpu: sources[answer.slowest].profile for answer in answers}
    need = need or most_memory(sources)

    def job_of(prediction: Prediction) -> WholeJob:
        assert work is not None
        return whole_job(slowest[prediction.gpu], prediction, work)

    def run_on(row: Recommendation) -> Trial:
        assert work is not None
        return trial_run(slowest[row.instance.gpu], row, epochs=work.epochs, startup_s=work.startup_s)

    job = job_of if work else None
    ranking = recommend(
        [replace(answer.prediction, gpus=math.ceil(gpus / machines)) for answer in answers],
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
    decision = decide(ranking.recommendations, objective, run_on if work else None)
    unit, here = sources[0].profile.unit, slowest_of(sources).gpu.name
    on = renting.on or rented(here, gpus, instances, machines=machines, market=limits.market)
    current = None
    if on.instance is not None:
        as_it_is = [answer.prediction for answer in answers]
        now = recommend(as_it_is, [on.instance], predictor.catalog, job_of=job, limits=JobLimits(market=on.market), gpus=gpus)
        gpu = predictor.catalog[on.instance.gpu]
        fits = None if need is None else need.fits(gpu, here=any(source.gpu == gpu for source in sources))
        current = now.cheapest and replace(now.cheapest, usd_per_hour=on.share * now.cheapest.usd_per_hour, fits=fits)
    is_now_stale = current is not None and current.price_stale and not (decision and decision.first.price_stale)
    if is_now_stale:
        current = None  # nothing can be compared with it
    notes = _notes(sources, ranking, need, on, limits, unit, is_now_stale=is_now_stale)
    what = verdict(decision, current, objective, unit or "epoch", limits, comparable_prices(ranking.recommendations))
    if decision is not None and predictor.pipeline == "paper" and by_data_sheet(decision.first.prediction.route):
        why = f"the paper's trees know only {', '.join(predictor.training['gpus'])}, and cannot extrapolate"
        what = Verdict("measure", f"Cannot tell yet: measure {decision.first.instance.gpu} first", why)
    if decision is not None and decision.first.price_stale:
        what = replace(what, text=f"{what.text} (by prices older than a year: there are no newer ones)")
    notes += _of_age(ranking.recommendations, objective)
    return Recommended(renting, ranking, decision, need, gpus, on, current, what, tuple(notes))


def _of_age(rows: Sequence[Recommendation], objective: Objective) -> list[str]:
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
    rows, gpus, notes = ranking.recommendations, sources[0].profile.gpus, list(on.notes)
    if not rows:
        reasons = [excluded.reason for excluded in ranking.left_out]
        why = ", ".join(f"{reasons.count(reason)} {MISSED[reason]}" for reason in dict.fromkeys(reasons))
        notes.append(f"no instance qualifies{f': {why}' if why else ''}")
    if any(row.gpus != gpus for row in rows):
        notes.append(
            f"the job has {gpus} GPU{'s' * (gpus > 1)} now and would use all GPUs of an instance, scaling as measured jobs did "
            "within one machine: each GPU holds the whole model and keeps its batch, so the total batch changes"
            f"{of_equal_work(unit)}"
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
