"""Baseline: Paleo's analytical model with its one constant fitted, for GPUs whose data sheet is in the catalogue."""

from __future__ import annotations

import re
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.metrics import COMPUTING_KINDS
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Gpu, load_catalog
from epochcast.regressor import InputError as UnknownGpu
from lab.rivals.paleo import Layer, fit_percent_of_peak, predict_forward_seconds, predict_step_seconds

_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4}
_HALF = 2


class Paleo:
    """Operations over FLOP/s and bytes over bandwidth, over the share of both that software reaches.

    Paleo adds up layers, so a network is a single layer with the sums of all.

    Args:
        phase: one of ``points.PHASES`` but the update, which Paleo does not separate.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.percent_of_peak = 1.0

    def fit(self, points: pd.DataFrame, seconds: NDArray[np.float64]) -> Self:
        """Fit the percent of peak that has the least MAPE; a device without a data sheet raises InputError."""
        self.percent_of_peak = fit_percent_of_peak(self._at_peak(points), seconds)
        return self

    def predict(self, points: pd.DataFrame) -> NDArray[np.float64]:
        """Seconds, shape (n,)."""
        return self._at_peak(points) / self.percent_of_peak

    def _at_peak(self, points: pd.DataFrame) -> NDArray[np.float64]:
        if self.phase == "update":
            raise InputError("Paleo does not separate the update; predict the step")
        gpu = _gpu(str(points["device"].iloc[0]))
        predict = predict_step_seconds if self.phase == "step" else predict_forward_seconds
        answer = []
        for row in points.to_dict("records"):
            traffic = sum(row[f"{kind}_traffic"] for kind in (*COMPUTING_KINDS, "pooling"))
            layer = Layer("all", row["flops"], int(traffic), 0, int(row["weights"]))
            # The first layer's gradient by the images is left out by Paleo; in a sum of layers it is there.
            answer.append(
                predict([Layer("", 0.0, 0, 0, 0), layer], gpu, int(row["batch"]), _BYTES.get(row["precision"], _HALF), 1.0)
            )
        return np.array(answer)


def _gpu(device: str) -> Gpu:
    """The GPU that a device's name has in it, such as ``nchw-pt240-cu124-rtx3090``."""
    catalog = load_catalog()
    for name in (device, *re.split(r"[-_ ]", device)[::-1]):
        try:
            return catalog.resolve(name)
        except UnknownGpu:
            continue
    raise InputError(f"Paleo needs the data sheet of {device!r}, which is not in the GPU catalogue; leave this baseline out")
