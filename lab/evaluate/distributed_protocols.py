"""Predicted against measured iterations: leave one model size out, or learn from a few rows (formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.communication.cluster import cluster_for
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients, DistributedModel
from epochcast.analyzer.backends.distributed.iteration import prepare
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.operator_time.learned import OperatorModel
from epochcast.analyzer.errors import InputError
from epochcast.regressor.scoring import Scores, score
from lab.distributed.calibration import CalibrationSample, fit
from lab.distributed.runs import MeasuredIteration
from lab.evaluate.common import HeldOut, Progress, Rows, Split, hold_out, leave_each_out
from lab.rivals.distributed import RECIPES

SEEDS = range(12)

RecipePredictions = HeldOut[Scores]
"""What one recipe says of runs, in seconds; points have ``size``, ``parallelism`` and the settings of each job."""


def strategy(run: MeasuredIteration) -> str:
    """The kinds of parallelism that a run mixes, such as ``DP+TP``."""
    degrees = {"DP": run.job.data, "TP": run.job.tensor, "PP": run.job.pipeline}
    return "+".join(name for name, degree in degrees.items() if degree > 1) or "one GPU"


def regret(answers: RecipePredictions) -> dict[str, float]:
    """Percent that the configuration predicted to be fastest takes longer than the fastest, by model size."""
    costs = {}
    for size in np.unique(answers.points["size"].to_numpy(dtype=np.str_)):
        own = answers.only((answers.points["size"] == size).to_numpy())
        costs[str(size)] = float(100 * (own.measured[own.predicted.argmin()] / own.measured.min() - 1))
    return costs


class RunEvaluator:
    """Fits and predicts runs; graphs and clusters are made once."""

    def __init__(self, progress: Progress | None = None, operators: OperatorModel | None = None) -> None:
        self._operators = operators or DistributedModel.load().operators
        self._graphs: dict[str, ModelGraphs] = {}
        self._measured: dict[MeasuredIteration, CalibrationSample] = {}
        self._fits: dict[tuple[MeasuredIteration, ...], Coefficients] = {}
        self._progress = progress or (lambda _: None)

    def graphs(self, run: MeasuredIteration) -> ModelGraphs:
        """The graphs of a run's model."""
        return self._graphs.setdefault(run.model, ModelGraphs.of(run.model))

    def fit(self, runs: Sequence[MeasuredIteration], belief: Coefficients | None = None) -> Coefficients:
        """Fit the coefficients on runs, once where the belief is the default.

        Raises:
            InputError: a run cannot be predicted.
        """
        key = tuple(runs)
        if belief is None and key in self._fits:
            return self._fits[key]
        measured = [self.measured(run) for run in runs]
        fitted = fit(measured, belief, lambda calls: self._progress(f"fitting {len(runs)} runs: {calls} evaluations"))
        if belief is None:
            self._fits[key] = fitted
        return fitted

    def parameters(self, runs: Sequence[MeasuredIteration]) -> tuple[float, float]:
        """Parameters of the smallest and of the largest model of runs."""
        unsplit: dict[str, Any] = {"data": 1, "tensor": 1, "pipeline": 1, "virtual_stages": 1, "layers_per_stage": None}
        jobs = {run.model: replace(run.job, **unsplit) for run in runs}
        sizes = [self._graphs[model].graph(job).parameters() for model, job in jobs.items()]
        return min(sizes), max(sizes)

    def measured(self, run: MeasuredIteration) -> CalibrationSample:
        """A run with what no coefficient changes, made once; raises InputError where it cannot be predicted."""
        if run not in self._measured:
            cluster = cluster_for(run.gpu, run.job.gpus, run.gpus_per_node, run.intra, run.inter)
            prepared = prepare(self.graphs(run).graph(run.job), run.job, cluster)
            self._measured[run] = CalibrationSample.of(prepared, run.seconds, self._operators)
        return self._measured[run]

    def predict(
        self, runs: Sequence[MeasuredIteration], coefficients: Coefficients, recipe: str = "default"
    ) -> NDArray[np.float64]:
        """Seconds of each run under a recipe, shape (n,); raises InputError for an unknown recipe."""
        if recipe not in RECIPES:
            raise InputError(f"unknown recipe {recipe!r}; choose one of {', '.join(RECIPES)}")
        if recipe == "default":
            return np.array([self.measured(run).predict(coefficients) for run in runs])
        seconds = []
        for run in runs:
            cluster = cluster_for(run.gpu, run.job.gpus, run.gpus_per_node, run.intra, run.inter)
            seconds.append(RECIPES[recipe](self.graphs(run), run.job, cluster, coefficients).seconds)
        return np.array(seconds)


def by_size(evaluator: RunEvaluator, runs: Sequence[MeasuredIteration], recipe: str = "default") -> RecipePredictions:
    """Leave one model size out: fit on all others, predict it.

    Raises:
        InputError: all runs are of one size, or a run cannot be predicted.
    """
    sizes = np.array([run.group for run in runs], dtype=np.str_)
    splits = leave_each_out(sizes)
    if len(splits) < 2:
        raise InputError(f"all {len(runs)} runs are of the model {sizes[0]}; give runs of two or more, or use --protocol rows")
    return _held_out(evaluator, runs, runs, splits, recipe)


def by_rows(
    evaluator: RunEvaluator, runs: Sequence[MeasuredIteration], rows: int, recipe: str = "default"
) -> RecipePredictions:
    """Fit on ``rows`` random runs, predict the others, for each of twelve seeds (0 rows: what is believed without any run).

    Raises:
        InputError: there are not more than ``rows`` runs, or a run cannot be predicted.
    """
    if rows >= len(runs):
        raise InputError(f"{rows} rows to learn from leave none of {len(runs)} to test on; give fewer")
    numbers = pd.Series(range(len(runs)))
    chosen = {f"seed {seed:2d}": numbers.isin(numbers.sample(rows, random_state=seed)).to_numpy() for seed in SEEDS}
    if rows == 0:
        chosen = {"belief": np.zeros(len(runs), dtype=bool)}
    return _held_out(evaluator, runs, runs, [Split(train, {name: ~train}) for name, train in chosen.items()], recipe)


def by_split(
    evaluator: RunEvaluator, train: Sequence[MeasuredIteration], test: Sequence[MeasuredIteration], recipe: str = "default"
) -> RecipePredictions:
    """Fit on one set of runs, predict another; raises InputError where a run cannot be predicted."""
    split = Split(np.ones(len(train), dtype=bool), {"test": np.ones(len(test), dtype=bool)})
    return _held_out(evaluator, train, test, [split], recipe)


def _held_out(
    evaluator: RunEvaluator,
    fit_runs: Sequence[MeasuredIteration],
    test_runs: Sequence[MeasuredIteration],
    splits: Sequence[Split],
    recipe: str,
) -> RecipePredictions:
    def predict(train: Rows, test: Rows) -> NDArray[np.float64]:
        fitted = list(compress(fit_runs, train))
        coefficients = evaluator.fit(fitted) if fitted else Coefficients()
        return evaluator.predict(list(compress(test_runs, test)), coefficients, recipe)

    points = pd.DataFrame([{"size": run.group, "parallelism": strategy(run), **asdict(run.job)} for run in test_runs])
    answers = hold_out(points, np.array([run.seconds for run in test_runs]), splits, predict, score)
    if answers.reason:  # of a run that the analytical model cannot answer the user should know first
        raise InputError(answers.reason)
    return answers
