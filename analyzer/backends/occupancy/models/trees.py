"""Models on what a training step is like: boosted trees, the default, and the mean of the labels as a baseline.

All models learnt standardised logarithms, for occupancies and bytes span powers of ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.models.step_features import step_features
from epochcast.analyzer.errors import InputError
from epochcast.regressor.trees import Trees

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Output:
    """Mean and standard deviation of the logarithms that were learnt from."""

    mean: float
    scale: float

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """From JSON."""
        return cls(float(state["mean"]), float(state["scale"]))

    def values(self, learnt: Floats) -> Floats:
        """The quantity itself, shape (n,)."""
        return np.asarray(np.exp(self.mean + self.scale * learnt))


class Mean:
    """The geometric mean of the fitted labels for all."""

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return self._output.values(np.zeros(len(samples)))

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what was fitted."""
        self._output = Output.restored(settings)
        return self


class StepTrees:
    """Boosted trees as plain arrays. They do not go beyond the labels that they saw."""

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return self._output.values(self._trees.predict(self.rows(samples)))

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what was fitted: numbers as JSON, and arrays."""
        self._output = Output.restored(settings["output"])
        self._trees = Trees.of_arrays(arrays, "trees")
        return self

    def rows(self, samples: Sequence[Sample]) -> Floats:
        """What the trees look at, shape (n, k)."""
        if not samples:
            raise InputError("there is no training to answer for")
        return np.stack([step_features(sample) for sample in samples])
