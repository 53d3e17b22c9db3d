"""A training step as the sum of forward pass, backward pass and update (Eq. 1), each fitted by the same form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms.default import Default
from epochcast.analyzer.backends.convmeter.terms import Columns
from epochcast.regressor.arrays import Arrays, part, parts_of, under

Array = NDArray[np.float64]
_PARTS = ("forward", "backward", "update")


class SumOfPhases:
    """A form per phase where all three were measured for every point, else a form for the step.

    The time of an update follows from the weights, that of the passes from the layers: apart they are predicted better.

    Args:
        make: the form, called with a phase.
    """

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make
        self.parts: Mapping[str, Any] = {}
        self.errors: Array | None = None

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit on points with ``PHASE_seconds`` and the seconds of the step; too few raise InputError.

        ``errors`` are then as those of ``Default``, if that is the form.
        """
        measured = {phase: _column(points, phase) for phase in _PARTS}
        if not all((times > 0).all() for times in measured.values()):
            measured = {"step": seconds}
        self.parts = {phase: self._make(phase).fit(points, times) for phase, times in measured.items()}
        if all(isinstance(part, Default) for part in self.parts.values()):
            apart = sum(measured[phase] * np.exp(-part.errors) for phase, part in self.parts.items())
            self.errors = np.log(seconds / apart)
        return self

    def predict(self, points: Columns) -> Array:
        """Seconds, shape (n,)."""
        answer: Array = np.sum([part.predict(points) for part in self.parts.values()], axis=0)
        return answer

    def arrays(self) -> dict[str, Array]:
        """Fitted arrays by phase."""
        return {name: array for phase, form in self.parts.items() for name, array in under(phase, form.arrays()).items()}

    def restore(self, arrays: Arrays) -> Self:
        """Restore a fit from :meth:`arrays`."""
        self.parts = {phase: self._make(phase).restore(part(arrays, phase)) for phase in parts_of(arrays)}
        return self


def _column(points: pd.DataFrame, phase: str) -> Array:
    name = f"{phase}_seconds"
    return points[name].to_numpy(dtype=float) if name in points else np.full(len(points), np.nan)
