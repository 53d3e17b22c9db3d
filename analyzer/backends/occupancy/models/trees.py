"""Boosted trees on what a training step is like: the default model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from epochcast.analyzer.backends.occupancy.models.output import Floats, Output
from epochcast.analyzer.backends.occupancy.models.step_features import step_features
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError
from epochcast.regressor.arrays import under
from epochcast.regressor.trees import Trees

# By choice, between a few values on folds of equal networks: many small steps, and columns that are much alike take turns.
_TREES = 600
_RATE = 0.05
_LEAVES = 15
_LEAST_ROWS = 8
_COLUMNS = 0.4


class StepTrees:
    """scikit-learn's boosted trees, kept as plain arrays. Trees do not go beyond the labels that they saw."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Fit the trees; values that cannot be raise InputError."""
        self._output = Output.of(values, len(samples))
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits

        model = HistGradientBoostingRegressor(
            max_iter=_TREES,
            learning_rate=_RATE,
            max_leaf_nodes=_LEAVES,
            min_samples_leaf=_LEAST_ROWS,
            max_features=_COLUMNS,
            early_stopping=False,
            random_state=self.seed,
        )
        rows = self._rows(samples)
        with threadpool_limits(1):  # rows are few: threads that wait for each other take 20 times as long on a busy machine
            model.fit(rows.astype(np.float32), self._output.learnt(values))
        self._trees = Trees.of_boosting(model)
        return self

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return self._output.values(self._trees.predict(self._rows(samples)))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        return {"output": self._output.state()}, under("trees", self._trees.arrays())

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Take what :meth:`state` gave."""
        self._output = Output.restored(settings["output"])
        self._trees = Trees.of_arrays(arrays, "trees")
        return self

    def _rows(self, samples: Sequence[Sample]) -> Floats:
        if not samples:
            raise InputError("there is no training to learn from or to answer for")
        return np.stack([step_features(sample) for sample in samples])
