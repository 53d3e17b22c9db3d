"""Measured speeds of GPUs at equal work: needs no telemetry, and uses how busy the GPU was where that is there."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.answers import Answers
from epochcast.regressor.features import busy_share
from epochcast.regressor.pairs import Pair, at, gpu_names, origins, source_seconds
from epochcast.regressor.precision import Precision, likely_precisions
from epochcast.regressor.speeds import Comparison, MeasuredRate, Speeds

# A job that hardly uses the GPU says nothing of its speed. By choice.
_LEAST_BUSY = 0.02


class SpeedsRecipe(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The hierarchical model of :mod:`~epochcast.regressor.speeds` on every rate that the training pairs hold.

    A job's rates are of its busy time where all of its profiles say how busy the GPU was, and the idle share of a new job stays
    what it is on the source. Where the precision is not known, the answer is the mean over what is likely, and its scale covers
    how far they differ.
    """

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Learn from the source profiles of measured pairs, each once."""
        self.speeds_ = Speeds().fit(rates_of(pairs))
        return self

    @classmethod
    def of(cls, speeds: Speeds) -> Self:
        """The recipe of a fitted model."""
        recipe = cls()
        recipe.speeds_ = speeds
        return recipe

    def forgetting_jobs(self) -> Self:
        """The same without what is known of each job: every job counts as one never measured."""
        return self.of(self.speeds_.forgetting_jobs())

    def without(self, job: str) -> Self:
        """The same as if a job had never been measured, anywhere."""
        return self.of(self.speeds_.without(job))

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(self.answer(pairs).log_ratio)
        return seconds

    def answer(self, pairs: Sequence[Pair]) -> Answers:
        """Answer each pair; needs no epoch seconds.

        Routes: ``job`` where the job itself was measured, on whichever GPUs, ``speeds`` where other jobs were measured on both
        GPUs, ``specifications`` where a GPU has its data sheet alone.
        """
        check_is_fitted(self, "speeds_")
        mixture = self._mixture(pairs)
        known = np.array([self.speeds_.knows_job(job_of(pair)) for pair in pairs])
        measured = self.measured(pairs)
        # A known job's coefficients hold its idle time already.
        busy = np.where(known, 1.0, [max(busy_share(pair.source)[0], _LEAST_BUSY) for pair in pairs])
        moved = busy * np.exp(-mixture.mean)
        log_ratio = np.log((1 - busy) + moved)
        noise = np.array([self.speeds_.noise(pair.source.origin) for pair in pairs])
        scale = np.sqrt(mixture.variance * (moved / (1 - busy + moved)) ** 2 + 2 * noise**2)
        routes = np.where(known, "job", np.where(measured, "speeds", "specifications"))
        return Answers(log_ratio, scale, measured.astype(np.float64), routes, gpu_names(pairs)[0], origins(pairs))

    def measured(self, pairs: Sequence[Pair]) -> NDArray[np.bool_]:
        """Whether both GPUs of each pair were measured, shape (n,)."""
        return np.array([self.speeds_.knows(pair.source_gpu) and self.speeds_.knows(pair.target_gpu) for pair in pairs])

    def _mixture(self, pairs: Sequence[Pair]) -> Comparison:
        """Mean and variance over the precisions that are likely for each job."""
        shares = [likely_precisions(pair.source, pair.source_gpu)[0] for pair in pairs]
        mean, square = np.zeros(len(pairs)), np.zeros(len(pairs))
        precisions: set[Precision] = {precision for likely in shares for precision in likely}
        for precision in sorted(precisions):
            rows = np.array([row for row, likely in enumerate(shares) if precision in likely])
            share = np.array([shares[row][precision] for row in rows])
            here = self._compare(at(pairs, rows), precision)
            mean[rows] += share * here.mean
            square[rows] += share * (here.variance + here.mean**2)
        return Comparison(mean, np.maximum(square - mean**2, 0.0))

    def _compare(self, pairs: Sequence[Pair], precision: Precision) -> Comparison:
        return self.speeds_.compare(
            [pair.source_gpu for pair in pairs],
            [pair.target_gpu for pair in pairs],
            [precision] * len(pairs),
            [job_of(pair) for pair in pairs],
        )


def rates_of(pairs: Sequence[Pair]) -> list[MeasuredRate]:
    """The rate of each source profile of measured pairs, once."""
    profiles = {id(pair.source): (pair.source, pair.source_gpu) for pair in pairs}
    batches: dict[tuple[str, int], list[float]] = defaultdict(list)
    idle_known: dict[str, bool] = defaultdict(lambda: True)
    for profile, _ in profiles.values():
        batches[str(profile.workload), profile.gpus] += [] if profile.batch is None else [math.log(profile.batch)]
        job = profile.group or str(profile.workload)
        idle_known[job] = idle_known[job] and busy_share(profile)[1] is not None
    rates = []
    for profile, gpu in profiles.values():
        assert profile.epoch_s is not None
        job, workload = profile.group or str(profile.workload), (str(profile.workload), profile.gpus)
        likely = likely_precisions(profile, gpu)[0]
        busy = max(busy_share(profile)[0], _LEAST_BUSY) if idle_known[job] else 1.0
        batch = 0.0 if profile.batch is None else math.log(profile.batch) - float(np.mean(batches[workload]))
        speed = -math.log(busy * profile.epoch_s)
        rates.append(
            MeasuredRate(
                f"{workload[0]} on {workload[1]}",
                job,
                gpu,
                max(likely, key=lambda precision: likely[precision]),
                speed,
                batch,
                profile.origin or "",
            )
        )
    return rates


def job_of(pair: Pair) -> str | None:
    """What shares coefficients: the network, or the workload where that is not known."""
    return pair.source.group or pair.source.workload
