"""What is recommended for a job of one or several GPUs: what `predictions` says of it, put against what can be rented."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..regressor import Catalog
from .instances import Instance
from .predictions import Answer
from .profiles import Source
from .recommendation import (
    Decision,
    Limits,
    MemoryNeed,
    Objective,
    Ranking,
    WholeJob,
    Work,
    decide,
    memory_need,
    recommend,
    trial_run,
    whole_job,
)


@dataclass(frozen=True)
class Recommended:
    """Instances for a job.

    Attributes:
        ranking: all of them, and what is left out.
        decision: how sure the first place is; None without recommendations.
        need: GPU memory that the job takes on each GPU; None where that is not known.
        jobs: the whole job on each GPU model; None for one epoch (or step).
        gpus, machines: of the job.
    """

    ranking: Ranking
    decision: Decision | None
    need: MemoryNeed | None
    jobs: dict[str, WholeJob] | None
    gpus: int
    machines: int

    @property
    def notes(self) -> list[str]:
        """A sentence on each thing that is assumed of a job of several GPUs."""
        if self.gpus == 1:
            return []
        notes = [f"the job's {self.gpus} GPUs are assumed to scale on another kind of GPU as they do here"]
        most = max((row.instances for row in self.ranking.recommendations), default=1)
        if most > self.machines:
            notes.append(
                "no instance that qualifies has enough GPUs: several are needed, and the network between them is not modelled, "
                "so that the job takes longer there than is said if it waits for it"
            )
        elif most > 1:
            notes.append("the network between several instances is assumed to be as good as that between its machines now")
        return notes


def recommend_job(
    sources: Sequence[Source],
    answers: Sequence[Answer],
    instances: Sequence[Instance],
    catalog: Catalog,
    *,
    gpus: int,
    machines: int = 1,
    work: Work | None = None,
    need: MemoryNeed | None = None,
    limits: Limits | None = None,
    objective: Objective = "cost",
) -> Recommended:
    """Rank what can be rented for the job of ``sources``, which is as slow as its slowest GPU.

    Args:
        sources: what can be compared of the job's GPUs (`predictions.comparable`).
        answers: of `predictions.predict_job`, for these sources.
        instances: what can be rented.
        catalog: GPUs, those of the sources among them.
        gpus: of the job, also those that say nothing.
        machines: that these are in now.
        work: what is still to be done; None ranks one epoch (or step).
        need: memory per GPU; None takes the most that a source used.
        limits, objective: as `recommend` has them.

    Raises:
        InputError: as `recommend` and `whole_job` do.
    """
    predictions = {answer.prediction.gpu: answer.prediction for answer in answers}
    slowest = {answer.prediction.gpu: sources[answer.slowest].profile for answer in answers}
    need = need or most_memory(sources)
    jobs = None if work is None else {name: whole_job(slowest[name], one, work) for name, one in predictions.items()}
    ranking = recommend(
        predictions.values(),
        instances,
        catalog,
        jobs=jobs,
        need=need,
        limits=limits,
        objective=objective,
        gpus=gpus,
        machines=machines,
    )
    runs = None
    if work is not None:
        rows = {row.instance.gpu: row for row in reversed(ranking.recommendations)}
        runs = {
            name: trial_run(slowest[name], predictions[name], row, epochs=work.epochs, startup_s=work.startup_s)
            for name, row in rows.items()
        }
    return Recommended(ranking, decide(ranking.recommendations, objective, runs), need, jobs, gpus, machines)


def most_memory(sources: Sequence[Source]) -> MemoryNeed | None:
    """What the job takes on the GPU that it fills most; None where no source tells."""
    needs = [need for source in sources if (need := memory_need(source.profile, source.gpu)) is not None]
    return max(needs, key=lambda need: need.bytes, default=None)
