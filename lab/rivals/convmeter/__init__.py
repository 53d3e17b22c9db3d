"""Forms of ConvMeter's model to compare with: steps on the way to the default, and baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms import FORMS, Form, summed
from epochcast.analyzer.backends.convmeter.forms.corrected import Corrected
from epochcast.analyzer.backends.convmeter.forms.pooled import Pooled
from lab.rivals.convmeter.boosting import Boosting
from lab.rivals.convmeter.paleo import Paleo
from lab.rivals.convmeter.single_metric import SingleMetric

FORMS.update({"pooled": summed(Pooled), "corrected": summed(Corrected)})

BASELINES: Mapping[str, Callable[[str], Form]] = {
    "flops": SingleMetric.of("flops"),
    "inputs": SingleMetric.of("conv_inputs"),
    "outputs": SingleMetric.of("conv_outputs"),
    "paleo": Paleo,
    "boosting": Boosting,
}
"""Forms to compare with; none is kept on disk."""


def fit_predict(train: pd.DataFrame, test: pd.DataFrame, phase: str, form: str) -> NDArray[np.float64]:
    """Fit points of one device and precision, and predict the seconds of others, shape (n,).

    Args:
        train: points as of ``points.py``; those in which the phase was not measured are passed over.
        test: points to predict.
        phase: one of ``points.PHASES``.
        form: name in ``FORMS`` or ``BASELINES``.

    Raises:
        InputError: there are too few points.
    """
    measured = train[train[f"{phase}_seconds"] > 0].reset_index(drop=True)
    seconds = measured[f"{phase}_seconds"].to_numpy(dtype=np.float64)
    made: Callable[[str], Form] = {**BASELINES, **FORMS}[form]
    return made(phase).fit(measured, seconds).predict(test)


__all__ = ["BASELINES", "FORMS", "fit_predict"]
