"""The recipe behind every answer: measured speeds of GPUs, and what telemetry adds where training has telemetry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.answers import Answers
from epochcast.regressor.arrays import Arrays, under
from epochcast.regressor.pairs import Pair, at, source_seconds
from epochcast.regressor.recipes.speeds import SpeedsRecipe
from epochcast.regressor.speeds import Speeds
from epochcast.regressor.telemetry_correction import TelemetryCorrection, has_telemetry

Route = Literal["ensemble", "incomplete", "residual", "job", "speeds", "specifications"]
"""What an answer rests on:

- ``ensemble``: jobs like this one, recorded with telemetry on both GPUs: the process of that pair, and trees.
- ``incomplete``: the same, with metrics that the profile lacks filled by what the others let expect.
- ``residual``: a GPU was never measured: its data sheet, corrected by part of what trees learnt from telemetry on other GPUs.
- ``job``: the job itself, known by its name, was measured on some GPUs; only where accuracy is measured, files know no jobs.
- ``speeds``: other jobs were measured on both GPUs, without telemetry like this one's or with other arithmetic.
- ``specifications``: a GPU was never measured: its data sheet.
"""


@dataclass(eq=False, repr=False)
class DefaultRecipe(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Speeds at equal work for every pair, and on top of them what telemetry adds (decision 0040, 0013).

    Args:
        trees: extra trees; 200 by choice (decision 0006).
        min_samples_leaf: 2 keeps every leaf an average, so that no training row's latency is stored in a model file.
        forest_share: weight of the trees next to the processes; a third by choice (decision 0013).
        residual_step: how much of what the trees learnt a new GPU gets; half, fixed a priori
            (decision 0006).
        random_state: seed of the trees.

    Attributes:
        speeds_: learnt from every pair.
        correction_: learnt from the pairs with telemetry; ``None`` where fewer than two have it.
    """

    trees: int = 200
    min_samples_leaf: int = 2
    forest_share: float = 1 / 3
    residual_step: float = 0.5
    random_state: int = 0

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on measured pairs.

        Raises:
            InputError: a pair is not measured, or the pairs hold telemetry of which no feature varies.
        """
        self.speeds_ = SpeedsRecipe().fit(pairs)
        self.correction_ = None
        recorded = [pair for pair in pairs if has_telemetry(pair.source)]
        if len(recorded) > 1:
            base = self.speeds_.forgetting_jobs().answer(recorded).log_ratio
            forest = ExtraTreesRegressor(self.trees, min_samples_leaf=self.min_samples_leaf, random_state=self.random_state)
            self.correction_ = TelemetryCorrection(self.forest_share, self.residual_step).fit(recorded, base, forest)
        return self

    def answer(self, pairs: Sequence[Pair]) -> Answers:
        """Answer each pair with its route, scale and support; needs no epoch seconds."""
        check_is_fitted(self, "speeds_")
        answers = self.speeds_.answer(pairs)
        rows = np.flatnonzero(self.corrects(pairs))
        if self.correction_ is not None and rows.size:
            recorded = at(pairs, rows)
            corrected = self.correction_.correct(recorded, self.speeds_.forgetting_jobs().answer(recorded))
            answers = answers.updated(rows, corrected)
        return answers

    def corrects(self, pairs: Sequence[Pair]) -> NDArray[np.bool_]:
        """Which answers telemetry corrects, by a part or as a whole, shape (n,)."""
        if self.correction_ is None:
            return np.zeros(len(pairs), dtype=bool)
        return self.correction_.applies(pairs, self.speeds_.measured(pairs))

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(self.answer(pairs).log_ratio)
        return seconds

    def forgetting_jobs(self) -> Self:
        """The same without what is known of each job: a user's job may have the name of another one of training."""
        other = type(self)(**self.get_params())
        other.speeds_, other.correction_ = self.speeds_.forgetting_jobs(), self.correction_
        return other

    def state(self) -> dict[str, Any]:
        """Return what was learnt, but for the arrays and what is known of single jobs, as JSON values."""
        check_is_fitted(self, "speeds_")
        return {
            "speeds": self.speeds_.speeds_.state(),
            "correction": None if self.correction_ is None else self.correction_.state(),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted arrays; :meth:`get_params` and :meth:`state` are the caller's to keep next to them."""
        corrections = {} if self.correction_ is None else self.correction_.arrays()
        return under("speeds", self.speeds_.speeds_.arrays()) | corrections

    def restore(self, state: Mapping[str, Any], arrays: Arrays) -> Self:
        """Take :meth:`state` and :meth:`arrays`."""
        self.speeds_ = SpeedsRecipe.of(Speeds.restored(state["speeds"], arrays))
        empty = TelemetryCorrection(self.forest_share, self.residual_step)
        self.correction_ = None if state["correction"] is None else empty.restore(state["correction"], arrays)
        return self
