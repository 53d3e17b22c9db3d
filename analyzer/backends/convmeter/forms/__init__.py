"""Forms of the performance model, one file each: the seconds of a phase as a function of metrics, and how it is fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms.default import Default
from epochcast.analyzer.backends.convmeter.forms.equations import Equations
from epochcast.analyzer.backends.convmeter.forms.layers import Layers
from epochcast.analyzer.backends.convmeter.forms.sum_of_phases import SumOfPhases
from epochcast.analyzer.backends.convmeter.terms import Columns
from epochcast.regressor.arrays import Arrays


class Form(Protocol):
    """Seconds of a phase on a device at a precision; made for a phase, then fitted."""

    def fit(self, points: pd.DataFrame, seconds: NDArray[np.float64]) -> Self:
        """Fit on points (metrics at batch 1, ``batch``, ``devices``, ``nodes``, ``family``) and measured seconds, shape (n,).

        Raises:
            InputError: there are too few points.
        """
        ...

    def predict(self, points: pd.DataFrame) -> NDArray[np.float64]:
        """Seconds, shape (n,), above 0; NaN where it has no answer."""
        ...


class KeptForm(Form, Protocol):
    """A form that a predictor can keep on disk."""

    def predict(self, points: Columns) -> NDArray[np.float64]:
        """As of :class:`Form`, from columns too."""
        ...

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Fitted arrays by name."""
        ...

    def restore(self, arrays: Arrays) -> Self:
        """Restore a fit from :meth:`arrays`."""
        ...


def summed(make: Callable[[str], KeptForm]) -> Callable[[str], KeptForm]:
    """The form; for a step, the sum of the form's phases."""
    return lambda phase: SumOfPhases(make) if phase == "step" else make(phase)


FORMS: dict[str, Callable[[str], KeptForm]] = {
    "default": summed(Default),
    "paper": Equations.paper,
    "relative": Equations.relative,
    "layers": summed(Layers),
}
"""Forms to predict with, each called with a phase; other forms may be added."""

__all__ = ["FORMS", "Form", "KeptForm", "summed"]
