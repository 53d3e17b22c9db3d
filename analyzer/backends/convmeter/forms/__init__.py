"""Forms of the performance model, one file each: what the seconds of a phase are a function of, and how it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .....regressor.arrays import Arrays
from ..terms import Columns
from .boosting import Boosting
from .corrected import Corrected
from .default import Default
from .equations import Equations
from .layers import Layers
from .paleo import Paleo
from .pooled import Pooled
from .single_metric import SingleMetric
from .sum_of_phases import SumOfPhases


class Form(Protocol):
    """Seconds of one phase on one device at one precision; made for a phase, then fitted."""

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
        """What was fitted, by name."""
        ...

    def restore(self, arrays: Arrays) -> Self:
        """Take what :meth:`arrays` gave; KeyError or ValueError where it is something else."""
        ...


def _summed(make: Callable[[str], KeptForm]) -> Callable[[str], KeptForm]:
    """The form, but for a step one of each of its phases."""
    return lambda phase: SumOfPhases(make) if phase == "step" else make(phase)


FORMS: Mapping[str, Callable[[str], KeptForm]] = {
    "default": _summed(Default),
    "paper": Equations.paper,
    "relative": Equations.relative,
    "layers": _summed(Layers),
    "pooled": _summed(Pooled),
    "corrected": _summed(Corrected),
}
"""Forms to predict with, each called with a phase."""

BASELINES: Mapping[str, Callable[[str], Form]] = {
    "flops": SingleMetric.of("flops"),
    "inputs": SingleMetric.of("conv_inputs"),
    "outputs": SingleMetric.of("conv_outputs"),
    "paleo": Paleo,
    "boosting": Boosting,
}
"""Forms to compare with."""

__all__ = ["BASELINES", "FORMS", "Form", "KeptForm"]
