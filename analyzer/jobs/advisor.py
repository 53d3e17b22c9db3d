"""A job's profiles in, its prediction on other GPUs and what to rent out.

All of it is made by what the command line uses too (`predictions`, `recommendations`); here it becomes models of answers.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from ...regressor import Catalog, Predictor, Profile, load_catalog
from ...regressor.precision import likely_precisions
from ..basis import BOTH_MEASURED
from ..instances import Instance, load_instances, stale
from ..job_result import JobResult, answer_job
from ..predictions import Answer
from ..profiles import Source
from ..recommendation import Limits, Objective, Recommendation, Work
from ..recommendation import recommend as rank
from ..recommendation.rank import cost_of, time_of
from ..recommendations import Recommended, recommend_job
from .answers import (
    CurrentInstance,
    InstanceAnswer,
    PredictionAnswer,
    RecommendationAnswer,
    Savings,
    TargetAnswer,
    VerdictAnswer,
)
from .current_instance import Rented

log = logging.getLogger(__name__)

# GPUs that one note names; of more it says how many, and each answer says what it rests on.
_MOST_NAMED = 5

# Below, less than half of what was learnt from telemetry counts.
_LITTLE_SUPPORT = 0.5

_MISSED = {
    "memory": "have too little GPU memory",
    "deadline": "miss the deadline",
    "budget": "exceed the budget",
    "price": "have no price in this market",
}


class Advisor:
    """Predicts and recommends; every method may be called from any thread, as nothing in it changes."""

    def __init__(
        self,
        catalog: Catalog,
        predictor: Predictor,
        instances: Sequence[Instance],
        *,
        objective: Objective = "cost",
        limits: Limits | None = None,
    ) -> None:
        """Take what was loaded once.

        Args:
            catalog, predictor, instances: GPUs, how to predict between them, what can be rented.
            objective, limits: of recommendations that nobody asked in particular.

        Raises:
            InputError: a cloud or a region of the limits that no instance is of.
        """
        self.catalog = catalog
        self.instances = instances
        self._predictor = predictor
        # Threads share the interpreter: with more of them than cores at it, each takes longer, and all of them together too.
        self._turns = threading.BoundedSemaphore(os.cpu_count() or 1)
        self.limits = limits or Limits()
        self._objective: Objective = objective
        rank([], instances, catalog, limits=self.limits)

    @classmethod
    def load(
        cls,
        *,
        model: Path | None = None,
        gpus: Path | None = None,
        prices: Path | None = None,
        objective: Objective = "cost",
        limits: Limits | None = None,
    ) -> Advisor:
        """Read a model's folder, GPUs beside the catalogue's and a price table; None: what is shipped.

        Raises:
            InputError: one of them cannot be used.
        """
        catalog = load_catalog(gpus)
        instances, notes = load_instances(prices, catalog)
        for note in notes:
            log.warning("%s", note)
        return cls(catalog, Predictor.load(model, catalog), instances, objective=objective, limits=limits)

    @property
    def oldest_price(self) -> date:
        """Day of the oldest price."""
        return min(one.date for one in self.instances)

    def prediction(
        self,
        sources: Sequence[Profile | Source],
        *,
        targets: Sequence[str] | None = None,
        epochs: int | None = None,
        target_gpus: int | None = None,
        batch_may_grow: bool = False,
    ) -> PredictionAnswer:
        """Predict the job of these GPUs on each target, or on every GPU of the catalogue, fastest first.

        Args:
            sources: one per GPU of the job; a profile's GPU is looked up in the catalogue.
            targets: names of GPUs, as the catalogue resolves them.
            epochs: epochs (or steps) of the whole job, to tell its time too.
            target_gpus, batch_may_grow: as `predict_job` has them.

        Raises:
            InputError: a GPU is not known, or the sources cannot be compared.
        """
        return _prediction(self._result(sources, targets, epochs, target_gpus=target_gpus, batch_may_grow=batch_may_grow))

    def recommendation(
        self,
        sources: Sequence[Profile | Source],
        *,
        objective: Objective | None = None,
        limits: Limits | None = None,
        epochs: int | None = None,
        gpus: int | None = None,
        machines: int = 1,
        data_parallel: bool = False,
        batch_may_grow: bool = False,
        on: Rented | None = None,
    ) -> RecommendationAnswer:
        """Rank what can be rented for the job of these GPUs.

        Args:
            sources: one per GPU of the job that tells something.
            objective, limits: None: those that it was made with.
            epochs: epochs (or steps) of the whole job; None: time and cost are of one.
            gpus: of the job; None: as many as sources.
            machines: that these are in now.
            data_parallel: as `recommend_job` has it.
            batch_may_grow: as `predict_job` has it.
            on: what the job runs on; None: the cheapest with its GPU is assumed.

        Raises:
            InputError: as `prediction`, or limits that need seconds where there are none.
        """
        result = self._result(sources, None, None, gpus=gpus, batch_may_grow=batch_may_grow)
        return self._recommendation(result, objective, limits, epochs, machines, on, data_parallel=data_parallel)

    def both(
        self, sources: Sequence[Source], *, epochs: int | None, gpus: int, machines: int, on: Rented | None
    ) -> tuple[PredictionAnswer, RecommendationAnswer]:
        """Return `prediction` for every GPU and `recommendation` by the settings, for the effort of one."""
        result = self._result(sources, None, epochs, gpus=gpus)
        return _prediction(result), self._recommendation(result, None, None, epochs, machines, on)

    def _recommendation(
        self,
        result: JobResult,
        objective: Objective | None,
        limits: Limits | None,
        epochs: int | None,
        machines: int,
        on: Rented | None,
        *,
        data_parallel: bool = False,
    ) -> RecommendationAnswer:
        objective = objective or self._objective
        limits = limits or self.limits
        profile = result.slowest.profile
        work = Work(epochs) if epochs is not None and profile.epoch_s is not None else None
        found = recommend_job(
            result,
            self.instances,
            machines=machines,
            data_parallel=data_parallel,
            work=work,
            limits=limits,
            objective=objective,
            on=on,
        )
        on, row = found.on, found.current
        first, last = found.ranking.cheapest, found.ranking.fastest
        return RecommendationAnswer(
            objective=objective,
            unit=profile.unit,
            epochs=None if work is None else work.epochs,
            recommendations=[_instance(one) for one in found.ranking.recommendations],
            cheapest=None if first is None else _instance(first),
            fastest=None if last is None else _instance(last),
            current=None if row is None else _current(row, on),
            savings=None if row is None or first is None or last is None else _savings(row, first, last, profile),
            sure=None if found.decision is None else found.decision.sure,
            chance=None if found.decision is None else found.decision.chance,
            verdict=VerdictAnswer(**found.verdict.to_json()),
            notes=[
                *result.notes,
                *_on_support(result.answers),
                *self._notes(result, found, on, limits, epochs),
            ],
        )

    def _result(
        self,
        sources: Sequence[Profile | Source],
        targets: Sequence[str] | None,
        epochs: int | None,
        *,
        gpus: int | None = None,
        target_gpus: int | None = None,
        batch_may_grow: bool = False,
    ) -> JobResult:
        read = [self._source(number, one) for number, one in enumerate(sources)]
        with self._turns:
            return answer_job(
                read,
                self._predictor,
                self.instances,
                targets=targets,
                epochs=epochs,
                gpus=gpus,
                target_gpus=target_gpus,
                batch_may_grow=batch_may_grow,
            )

    def _source(self, number: int, one: Profile | Source) -> Source:
        if isinstance(one, Source):
            return one
        return Source(f"profile {number + 1}", one, self.catalog.resolve(one.gpu))

    def _notes(self, result: JobResult, found: Recommended, on: Rented, limits: Limits, epochs: int | None) -> list[str]:
        notes, profile = [*found.notes, *on.notes], result.slowest.profile
        if on.instance is not None and len({source.gpu.name for source in result.sources}) > 1:
            notes.append(f"what the job runs on now is priced as if all of its GPUs were {on.instance.gpu}, as its slowest is")
        rows = found.ranking.recommendations
        if epochs is not None and profile.epoch_s is None:
            notes.append("time and cost are relative: no epochs were found, so the whole job cannot be reckoned")
        if not rows:
            reasons = [one.reason for one in found.ranking.left_out]
            why = ", ".join(f"{reasons.count(reason)} {_MISSED[reason]}" for reason in dict.fromkeys(reasons))
            notes.append(f"no instance qualifies{f': {why}' if why else ''}")
        if found.need is None:
            notes.append("how much GPU memory the job needs is not known, so that an instance may be too small")
        elif found.need.reserved:
            notes.append(
                "nearly all of the GPU's memory is in use, perhaps only reserved: whether smaller GPUs do is not known"
            )
        if on.instance is None:
            if not on.notes:
                notes.append("nothing in the price table has the job's GPU, so savings are not known")
        elif on.assumed:
            why = "" if on.notes else "what the job runs on was not said: "
            notes.append(f"{why}savings are against {on.instance.cloud} {on.instance.name}, the cheapest with its GPU")
        if on.instance is not None and on.market != limits.market:
            notes.append(f"{on.instance.name} has no {limits.market} price: its {on.market} price is taken")
        if rows and limits.market == "spot":
            notes.append("spot: instances can be taken away; the time lost by that is not in the figures")
        old = stale(found.decisive, date.today())
        return notes + ([old] if old else [])


def _on_support(answers: Sequence[Answer]) -> list[str]:
    """A sentence on the GPUs that nothing was measured on, and on those where training has seen too little like this job."""
    others = [answer.prediction for answer in answers if answer.prediction.route != "measured"]
    of_sheets = [one.gpu for one in others if one.route not in BOTH_MEASURED]
    unlike = [one.gpu for one in others if one.gpu not in of_sheets and one.support < _LITTLE_SUPPORT]

    def named(gpus: list[str]) -> str:
        if len(gpus) > _MOST_NAMED:
            return "every other GPU" if len(gpus) == len(others) else f"{len(gpus)} of {len(others)} GPUs"
        return ", ".join(gpus)

    notes = []
    if of_sheets:
        notes.append(f"the answers for {named(of_sheets)} rest on data sheets: nothing was measured on one of the two GPUs")
    if unlike:
        notes.append(f"the job is unlike those of training, so its telemetry counts little for {named(unlike)}")
    return notes


def _prediction(result: JobResult) -> PredictionAnswer:
    profile = result.slowest.profile
    return PredictionAnswer(
        source=profile.gpu,
        epoch_s=profile.epoch_s,
        epoch_s_low=profile.epoch_s_low,
        epoch_s_high=profile.epoch_s_high,
        unit=profile.unit,
        simulated=any(source.profile.simulated for source in result.sources),
        feature_set=profile.feature_set,
        precision=likely_precisions(profile, result.slowest.gpu)[0],
        predictions=[_target(answer) for answer in result.answers],
        notes=[*result.notes, *_on_support(result.answers)],
    )


def _target(answer: Answer) -> TargetAnswer:
    one = answer.prediction
    job = None if answer.job is None else answer.job.seconds
    return TargetAnswer(
        gpu=one.gpu,
        ratio=one.ratio,
        ratio_low=one.ratio_low,
        ratio_high=one.ratio_high,
        seconds=one.seconds,
        low=one.low,
        high=one.high,
        why=one.why,
        route=one.route,
        support=one.support,
        by_precision=dict(one.by_precision),
        gpus=one.gpus,
        batch=one.batch,
        fits=answer.fits,
        job_s=None if job is None else job.value,
        job_s_low=None if job is None else job.low,
        job_s_high=None if job is None else job.high,
    )


def _instance(row: Recommendation) -> InstanceAnswer:
    seconds, usd = row.seconds, row.usd
    return InstanceAnswer(
        instance=row.instance.name,
        cloud=row.instance.cloud,
        region=row.instance.region,
        gpu=row.instance.gpu,
        gpu_count=row.instance.count,
        instances=row.instances,
        market=row.market,
        usd_per_hour=row.usd_per_hour,
        seconds=None if seconds is None else seconds.value,
        seconds_low=None if seconds is None else seconds.low,
        seconds_high=None if seconds is None else seconds.high,
        usd=None if usd is None else usd.value,
        usd_low=None if usd is None else usd.low,
        usd_high=None if usd is None else usd.high,
        gpus=row.gpus,
        ratio=row.prediction.ratio,
        ratio_low=row.prediction.ratio_low,
        ratio_high=row.prediction.ratio_high,
        fits=row.fits,
        pareto=row.pareto,
        why=row.prediction.why,
    )


def _current(row: Recommendation, on: Rented) -> CurrentInstance:
    return CurrentInstance(
        instance=row.instance.name,
        cloud=row.instance.cloud,
        region=row.instance.region,
        gpu=row.instance.gpu,
        gpu_count=row.instance.count,
        instances=row.instances,
        usd_per_hour=row.usd_per_hour,
        seconds=None if row.seconds is None else row.seconds.value,
        usd=None if row.usd is None else row.usd.value,
        assumed=on.assumed,
    )


def _savings(now: Recommendation, cheapest: Recommendation, fastest: Recommendation, profile: Profile) -> Savings:
    per_unit = None
    if profile.epoch_s is not None:
        per_hour = now.prediction.ratio * now.usd_per_hour - cheapest.prediction.ratio * cheapest.usd_per_hour
        per_unit = per_hour * profile.epoch_s / 3600
    return Savings(
        cost_ratio=1 - cost_of(cheapest) / cost_of(now),
        time_ratio=1 - time_of(fastest) / time_of(now),
        usd_per_unit=per_unit,
    )
