"""What is recommended for a job of one or several GPUs: what `predictions` says of it, put against what can be rented."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..regressor import Prediction
from ..regressor.profile import Unit
from .instances import Instance
from .job_result import JobResult
from .jobs.current_instance import Rented, rented
from .predictions import of_equal_work
from .recommendation import (
    Decision,
    Limits,
    MemoryNeed,
    Objective,
    Ranking,
    Recommendation,
    WholeJob,
    Work,
    decide,
    recommend,
    trial_run,
    whole_job,
)
from .recommendation.experiment import Run
from .recommendation.memory_fit import most_memory
from .recommendation.verdict import Verdict, verdict


@dataclass(frozen=True)
class Recommended:
    """Instances for a job.

    Attributes:
        ranking: all of them, and what is left out.
        decision: how sure the first place is; None without recommendations.
        need: GPU memory that the job takes on each GPU; None where that is not known.
        gpus, machines: of the job.
        unit: that the predictions are of.
        on: what it runs on now.
        current: the job there; None where that has no price.
        verdict: what to do.
    """

    ranking: Ranking
    decision: Decision | None
    need: MemoryNeed | None
    gpus: int
    machines: int
    unit: Unit | None
    on: Rented
    current: Recommendation | None
    verdict: Verdict

    @property
    def decisive(self) -> list[Instance]:
        """What the verdict is about: the first place, what may be better, and what the job runs on now."""
        rows = [] if self.current is None else [self.current]
        if self.decision is not None:
            rows += [self.decision.first, *(rival.recommendation for rival in self.decision.rivals)]
        return list({id(row.instance): row.instance for row in rows}.values())

    @property
    def notes(self) -> list[str]:
        """A sentence on each thing that is assumed of a job of several GPUs."""
        rows, notes = self.ranking.recommendations, []
        if any(row.gpus != self.gpus for row in rows):
            notes.append(
                f"the job has {self.gpus} GPU{'s' * (self.gpus > 1)} now and takes all GPUs of an instance, as measured jobs "
                "scaled within one machine: each holds the whole model and a batch of its own, so that of all together changes"
                f"{of_equal_work(self.unit)}"
            )
        if any(row.instances > 1 for row in rows):
            notes.append("the network between several instances is assumed to be as good as that between its machines now")
        return notes


def recommend_job(
    result: JobResult,
    instances: Sequence[Instance],
    *,
    machines: int = 1,
    data_parallel: bool = False,
    work: Work | None = None,
    need: MemoryNeed | None = None,
    limits: Limits | None = None,
    objective: Objective = "cost",
    on: Rented | None = None,
) -> Recommended:
    """Rank what can be rented for a job, which is as slow as its slowest GPU.

    Args:
        result: of `answer_job`, for all GPUs of the catalogue.
        instances: what can be rented.
        machines: that the job's GPUs are in now.
        data_parallel: a job of one GPU would run on several as well; one of several does.
        work: what is still to be done; None ranks one epoch (or step).
        need: memory per GPU; None takes the most that a source used.
        limits, objective: as `recommend` has them.
        on: what the job runs on; None: the cheapest with its GPU is assumed.

    Raises:
        InputError: as `recommend` and `whole_job` do.
    """
    sources, answers, gpus = result.sources, result.answers, result.sources[0].profile.gpus
    slowest = {answer.prediction.gpu: sources[answer.slowest].profile for answer in answers}
    need = need or most_memory(sources)

    def job_of(prediction: Prediction) -> WholeJob:
        assert work is not None
        return whole_job(slowest[prediction.gpu], prediction, work)

    def run_on(row: Recommendation) -> Run:
        assert work is not None
        return trial_run(slowest[row.instance.gpu], row, epochs=work.epochs, startup_s=work.startup_s)

    job = job_of if work else None
    ranking = recommend(
        [replace(answer.prediction, gpus=math.ceil(gpus / machines)) for answer in answers],
        instances,
        result.catalog,
        job_of=job,
        on_gpus=result.predictor.on_gpus if gpus > 1 or data_parallel else None,
        need=need,
        limits=limits,
        objective=objective,
        gpus=gpus,
        machines=machines,
    )
    decision = decide(ranking.recommendations, objective, run_on if work else None)
    limits, unit = limits or Limits(), sources[0].profile.unit
    on = on or rented(result.slowest.gpu.name, gpus, instances, machines=machines, market=limits.market)
    current = None
    if on.instance is not None:
        as_it_is = [answer.prediction for answer in answers]
        now = recommend(as_it_is, [on.instance], result.catalog, job_of=job, limits=Limits(market=on.market), gpus=gpus)
        current = now.cheapest
    what = verdict(decision, current, objective, unit or "epoch", limits)
    return Recommended(ranking, decision, need, gpus, machines, unit, on, current, what)
