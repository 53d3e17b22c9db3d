"""Baseline: the label of the most similar configuration that was learnt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy.spatial import KDTree

from ..features import Rows, Standardiser
from ..sample import Sample
from .output import Floats, Output, Target
from .pooled_features import pooled_features


class NearestConfiguration:
    """The nearest by Euclidean distance between standardised pooled features; among equals, one of them."""

    def __init__(self, target: Target = "ratio") -> None:
        self.target = target

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Keep all rows; values that cannot be raise InputError."""
        Output.of(self.target, values, len(samples))
        rows = pooled_features(samples)
        self._standardiser = Standardiser.fit([rows])
        return self._keep(self._standardiser.apply(rows), values)

    def _keep(self, rows: Rows, values: Floats) -> Self:
        self._rows, self._values = rows, np.asarray(values, dtype=np.float64)
        self._tree = KDTree(rows)
        return self

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        _, nearest = self._tree.query(self._standardiser.apply(pooled_features(samples)))
        return self._values[nearest]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        scaling = {"mean": self._standardiser.mean, "scale": self._standardiser.scale}
        return {"target": self.target}, {"rows": self._rows, "values": self._values, **scaling}

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Take what :meth:`state` gave."""
        self.target = settings["target"]
        self._standardiser = Standardiser(arrays["mean"], arrays["scale"])
        return self._keep(arrays["rows"], arrays["values"])
