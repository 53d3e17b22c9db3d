"""Baseline: the geometric mean of the fitted labels, the same for every network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from epochcast.analyzer.backends.occupancy.models.output import Floats, Output
from epochcast.analyzer.backends.occupancy.sample import Sample


class Mean:
    """The same answer for all."""

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return self._output.values(np.zeros(len(samples)))

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Take what was fitted."""
        self._output = Output.restored(settings)
        return self
