"""Baseline: the geometric mean of the fitted labels, the same for every network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from epochcast.analyzer.backends.occupancy.models.output import Floats, Output
from epochcast.analyzer.backends.occupancy.sample import Sample


class Mean:
    """The same answer for all."""

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Take the mean; values that cannot be raise InputError."""
        self._output = Output.of(values, len(samples))
        return self

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return self._output.values(np.zeros(len(samples)))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        return self._output.state(), {}

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Take what :meth:`state` gave."""
        self._output = Output.restored(settings)
        return self
