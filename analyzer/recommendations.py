"""What is recommended for a job of one or several GPUs: what `predictions` says of it, put against what can be rented."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..regressor import Prediction, Predictor
from ..regressor.profile import Unit
from .instances import Instance
from .jobs.current_instance import Rented, rented
from .predictions import Answer, of_equal_work
from .profiles import Source, slowest_of
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

if TYPE_CHECKING:
    from ..regressor import PaperPredictor


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
    sources: Sequence[Source],
    answers: Sequence[Answer],
    instances: Sequence[Instance],
    predictor: Predictor | PaperPredictor,
    *,
    gpus: int,
    machines: int = 1,
    data_parallel: bool = False,
    work: Work | None = None,
    need: MemoryNeed | None = None,
    limits: Limits | None = None,
    objective: Objective = "cost",
    on: Rented | None = None,
) -> Recommended:
    """Rank what can be rented for the job of ``sources``, which is as slow as its slowest GPU.

    Args:
        sources: what can be compared of the job's GPUs (`predictions.comparable`).
        answers: of `predictions.predict_job`, for these sources.
        instances: what can be rented.
        predictor: that made the answers; those of the sources are among its GPUs.
        gpus: of the job, also those that say nothing.
        machines: that these are in now.
        data_parallel: a job of one GPU would run on several as well; one of several does.
        work: what is still to be done; None ranks one epoch (or step).
        need: memory per GPU; None takes the most that a source used.
        limits, objective: as `recommend` has them.
        on: what the job runs on; None: the cheapest with its GPU is assumed.

    Raises:
        InputError: as `recommend` and `whole_job` do.
    """
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
        predictor.catalog,
        job_of=job,
        on_gpus=predictor.on_gpus if gpus > 1 or data_parallel else None,
        need=need,
        limits=limits,
        objective=objective,
        gpus=gpus,
        machines=machines,
    )
    decision = decide(ranking.recommendations, objective, run_on if work else None)
    limits, unit = limits or Limits(), sources[0].profile.unit
    on = on or rented(slowest_of(sources).gpu.name, gpus, instances, machines=machines, market=limits.market)
    current = None
    if on.instance is not None:
        as_it_is = [answer.prediction for answer in answers]
        now = recommend(as_it_is, [on.instance], predictor.catalog, job_of=job, limits=Limits(market=on.market), gpus=gpus)
        current = now.cheapest
    what = verdict(decision, current, objective, unit or "epoch", limits)
    return Recommended(ranking, decision, need, gpus, machines, unit, on, current, what)
