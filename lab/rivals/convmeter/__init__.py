"""Forms of ConvMeter's model next to each other: the product's recipes, and baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms import Default, Paper
from lab.rivals.convmeter.paleo import Paleo
from lab.rivals.convmeter.single_metric import SingleMetric

FORMS: Mapping[str, Callable[[str], Any]] = {
    "default": Default,
    "paper": Paper,
    "flops": SingleMetric.of("flops"),
    "inputs": SingleMetric.of("conv_inputs"),
    "outputs": SingleMetric.of("conv_outputs"),
    "paleo": Paleo,
}
"""Recipes to predict with first, then forms to compare with; each is called with a phase."""

_PARTS = ("forward", "backward", "update")


def fit_predict(train: pd.DataFrame, test: pd.DataFrame, phase: str, form: str) -> NDArray[np.float64]:
    """Fit points of one device and precision, and predict the seconds of others, shape (n,).

    A step is the sum of its phases by `default` where they were measured, as the product has it.

    Args:
        train: points as of ``metrics.py``; those in which the phase was not measured are passed over.
        test: points to predict.
        phase: one of ``points.PHASES``.
        form: name in ``FORMS``.

    Raises:
        InputError: there are too few points.
    """
    measured = train[train[f"{phase}_seconds"] > 0].reset_index(drop=True)
    if phase == "step" and form == "default" and all((measured[f"{part}_seconds"] > 0).all() for part in _PARTS):
        return np.asarray(sum(fit_predict(measured, test, part, form) for part in _PARTS))
    seconds = measured[f"{phase}_seconds"].to_numpy(dtype=np.float64)
    predicted: NDArray[np.float64] = FORMS[form](phase).fit(measured, seconds).predict(test)
    return predicted


__all__ = ["FORMS", "fit_predict"]
