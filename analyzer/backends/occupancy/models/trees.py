"""Boosted trees on what a training step is like: the default model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from epochcast.analyzer.backends.occupancy.models.output import Floats, Output
from epochcast.analyzer.backends.occupancy.models.step_features import step_features
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError
from epochcast.regressor.trees import Trees


class StepTrees:
    """Boosted trees as plain arrays. They do not go beyond the labels that they saw."""

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return self._output.values(self._trees.predict(self.rows(samples)))

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Take what was fitted: numbers as JSON, and arrays."""
        self._output = Output.restored(settings["output"])
        self._trees = Trees.of_arrays(arrays, "trees")
        return self

    def rows(self, samples: Sequence[Sample]) -> Floats:
        """What the trees look at, shape (n, k)."""
        if not samples:
            raise InputError("there is no training to answer for")
        return np.stack([step_features(sample) for sample in samples])
