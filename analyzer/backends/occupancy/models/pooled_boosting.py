"""Baseline: gradient boosting on pooled graph features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from .....regressor.arrays import under
from .....regressor.trees import Trees
from ...distributed.operator_time.boosting import fit_boosting
from ..sample import Sample
from .output import Floats, Output, Target
from .pooled_features import POOLED_NAMES, pooled_features


class PooledBoosting:
    """scikit-learn's boosted trees, kept as plain arrays. Trees do not go beyond the labels that they saw."""

    def __init__(self, target: Target = "ratio") -> None:
        self.target = target

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Fit the trees; values that cannot be raise InputError."""
        self._output = Output.of(self.target, values, len(samples))
        rows = pooled_features(samples).astype(np.float64)
        import sklearn.ensemble  # noqa: F401 - its threads can be limited once it is loaded
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # rows are few: threads that wait for each other take 20 times as long on a busy machine
            self._trees = fit_boosting(rows, self._output.learnt(values), np.ones(len(rows)))
        return self

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return self._output.values(self._trees.predict(pooled_features(samples).astype(np.float64)))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        return {"output": self._output.state()}, under("trees", self._trees.arrays())

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Take what :meth:`state` gave; trees that are not sound raise InputError."""
        self._output = Output.restored(settings["output"])
        self.target = self._output.target
        self._trees = Trees.of_arrays(arrays, "trees", len(POOLED_NAMES), boosted=True)
        return self
