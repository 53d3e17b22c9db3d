"""Predicted against measured iterations: leave one model size out, or learn from a few rows (formats.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .....regressor.scoring import Scores, score
from ....errors import InputError
from ..calibration import Measured, fit
from ..coefficients import Coefficients
from ..communication import cluster_for
from ..graphs import ModelGraphs
from ..iteration import prepare
from ..recipes import RECIPES
from ..runs import Run

SEEDS = range(12)

Progress = Callable[[str], object]


@dataclass(frozen=True)
class Answers:
    """Measured and predicted seconds of tested rows, shape (n,) each; a row tested under several seeds stands several times."""

    runs: tuple[Run, ...]
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    spread: tuple[float, ...] = field(default=())
    """MAPE of each seed."""

    @property
    def scores(self) -> Scores:
        """Error figures over all rows."""
        return score(self.measured, self.predicted)

    def by(self, of: Callable[[Run], str]) -> Mapping[str, Scores]:
        """Error figures of each group."""
        names = np.array([of(run) for run in self.runs])
        return {
            name: score(self.measured[names == name], self.predicted[names == name]) for name in sorted(set(names.tolist()))
        }

    def regret(self) -> Mapping[str, float]:
        """Percent that the configuration predicted to be fastest takes longer than the fastest, by group of runs."""
        answer = {}
        for name in sorted({run.group for run in self.runs}):
            own = [index for index, run in enumerate(self.runs) if run.group == name]
            chosen = min(own, key=lambda index: self.predicted[index])
            answer[name] = float(100 * (self.measured[chosen] / min(self.measured[index] for index in own) - 1))
        return answer


def strategy(run: Run) -> str:
    """The kinds of parallelism that a run mixes, such as ``DP+TP``."""
    degrees = {"DP": run.job.data, "TP": run.job.tensor, "PP": run.job.pipeline}
    return "+".join(name for name, degree in degrees.items() if degree > 1) or "one GPU"


class RunEvaluator:
    """Fits and predicts runs; graphs and clusters are made once."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._graphs: dict[str, ModelGraphs] = {}
        self._measured: dict[Run, Measured] = {}
        self._fits: dict[tuple[Run, ...], Coefficients] = {}
        self._progress = progress or (lambda _: None)

    def graphs(self, run: Run) -> ModelGraphs:
        """The graphs of a run's model."""
        return self._graphs.setdefault(run.model, ModelGraphs.of(run.model))

    def fit(self, runs: Sequence[Run], belief: Coefficients | None = None) -> Coefficients:
        """Fit the coefficients on runs, once where the belief is the default.

        Raises:
            InputError: a run cannot be predicted.
        """
        key = tuple(runs)
        if belief is None and key in self._fits:
            return self._fits[key]
        measured = [self._prepared(run) for run in runs]
        fitted = fit(measured, belief, lambda calls: self._progress(f"fitting {len(runs)} runs: {calls} evaluations"))
        if belief is None:
            self._fits[key] = fitted
        return fitted

    def _prepared(self, run: Run) -> Measured:
        if run not in self._measured:
            cluster = cluster_for(run.gpu, run.job.gpus, run.gpus_per_node, run.intra, run.inter)
            prepared = prepare(self.graphs(run).graph(run.job), run.job, cluster)
            self._measured[run] = Measured.of(prepared, run.seconds)
        return self._measured[run]

    def predict(self, runs: Sequence[Run], coefficients: Coefficients, recipe: str = "default") -> NDArray[np.float64]:
        """Seconds of each run under a recipe, shape (n,); raises InputError for an unknown recipe."""
        if recipe not in RECIPES:
            raise InputError(f"unknown recipe {recipe!r}; choose one of {', '.join(RECIPES)}")
        if recipe == "default":
            return np.array([self._prepared(run).predict(coefficients) for run in runs])
        seconds = []
        for run in runs:
            cluster = cluster_for(run.gpu, run.job.gpus, run.gpus_per_node, run.intra, run.inter)
            seconds.append(RECIPES[recipe](self.graphs(run), run.job, cluster, coefficients).seconds)
        return np.array(seconds)


def by_size(evaluator: RunEvaluator, runs: Sequence[Run], recipe: str = "default") -> Answers:
    """Leave one model size out: fit on all others, predict it.

    Raises:
        InputError: all runs are of one size.
    """
    groups = sorted({run.group for run in runs})
    if len(groups) < 2:
        raise InputError(f"all {len(runs)} runs are of the model {groups[0]}; give runs of two or more, or use --protocol rows")
    predicted = np.zeros(len(runs))
    for group in groups:
        out = [index for index, run in enumerate(runs) if run.group == group]
        coefficients = evaluator.fit([run for run in runs if run.group != group])
        predicted[out] = evaluator.predict([runs[index] for index in out], coefficients, recipe)
    return Answers(tuple(runs), _seconds(runs), predicted)


def by_rows(evaluator: RunEvaluator, runs: Sequence[Run], rows: int, recipe: str = "default") -> Answers:
    """Fit on ``rows`` random runs, predict the others, for each of twelve seeds (0 rows: what is believed without any run).

    Raises:
        InputError: there are not more than ``rows`` runs.
    """
    if rows >= len(runs):
        raise InputError(f"{rows} rows to learn from leave none of {len(runs)} to test on; give fewer")
    if rows == 0:
        return Answers(tuple(runs), _seconds(runs), evaluator.predict(runs, Coefficients(), recipe))
    tested: list[Run] = []
    predicted: list[NDArray[np.float64]] = []
    spread = []
    for seed in SEEDS:
        chosen = set(pd.DataFrame({"row": range(len(runs))}).sample(rows, random_state=seed)["row"])
        coefficients = evaluator.fit([runs[index] for index in sorted(chosen)])
        others = [run for index, run in enumerate(runs) if index not in chosen]
        predicted.append(evaluator.predict(others, coefficients, recipe))
        tested += others
        spread.append(score(_seconds(others), predicted[-1]).mape)
    return Answers(tuple(tested), _seconds(tested), np.concatenate(predicted), tuple(spread))


def by_split(evaluator: RunEvaluator, train: Sequence[Run], test: Sequence[Run], recipe: str = "default") -> Answers:
    """Fit on one set of runs, predict another."""
    coefficients = evaluator.fit(train)
    return Answers(tuple(test), _seconds(test), evaluator.predict(test, coefficients, recipe))


def _seconds(runs: Sequence[Run]) -> NDArray[np.float64]:
    return np.array([run.seconds for run in runs])
