"""Baseline: the mean of what was learnt from, whatever is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..sample import Sample
from .output import Floats, Output, Target


class TrainingMean:
    """The same answer for all; the geometric mean of seconds."""

    def __init__(self, target: Target = "ratio") -> None:
        self.target = target
        self._mean = float("nan")

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Take the mean; values that cannot be raise InputError."""
        output = Output.of(self.target, values, len(samples))
        (self._mean,) = output.values(output.learnt(values).mean(keepdims=True))
        return self

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return np.full(len(samples), self._mean)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        return {"target": self.target, "mean": float(self._mean)}, {}

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Take what :meth:`state` gave."""
        self.target = settings["target"]
        self._mean = float(settings["mean"])
        return self
