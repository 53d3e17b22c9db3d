"""PELT of `ruptures`: the cheapest segmentation under a price per change point.

Killick, Fearnhead and Eckley, "Optimal detection of changepoints with a linear computational cost", JASA 107 (2012).
"""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.signals import Signals
from lab.rivals.detection import change_points

#: The price in the library's own introduction, for a cost that is at most 1 per sample.
RBF_PENALTY = 3.0


def detect(
    signals: Signals,
    clock: Clock,
    *,
    cost: change_points.Cost = "rbf",
    penalty: float | None = None,
    every: int = 1,
    most_samples: int = 1000,
) -> Detection:
    """Epochs between the change points of one metric, their number chosen by a penalty.

    The metric is the only one given, else the first of `signals.PREFERENCE`. Confidence as in `paper`: how even the epochs are.

    Args:
        signals: n samples.
        clock: the samples' positions.
        cost: of a segment: `l2`, squared deviation from its mean; `rbf`, the same in the feature space of a Gaussian kernel.
        penalty: price of a change point on the series with mean 0 and variance 1. By default 3 for `rbf`, and 2 s log n for
            `l2`, with s the variance of the noise, estimated from the differences of neighbours (the Schwarz criterion).
        every: a boundary is every so-many-th change point; 2 where an epoch has two (training and validation).
        most_samples: longer series are averaged down to this length (by choice): time and memory grow with its square.

    Raises:
        InputError: a parameter out of bounds, or `ruptures` is not installed.
    """
    if penalty is not None and not 0 < penalty < np.inf:
        raise InputError(f"penalty is {penalty}: choose more than 0")
    ruptures = change_points.library()
    series = change_points.standardised(signals, clock, cost, every, most_samples)
    points: list[int] = []
    if series is not None:
        if penalty is None:
            penalty = RBF_PENALTY if cost == "rbf" else _schwarz(series.values)
        points = change_points.kernel_search(ruptures, cost, series.values).predict(pen=penalty)[:-1]
    return change_points.cut("pelt", clock, series, points, every)


def _schwarz(values: NDArray[np.float64]) -> float:
    """2 s log n of a series of variance 1; the noise counts for at least a thousandth of the variance (by choice).

    Half of a normal distribution is within 0.6745 standard deviations; differences have the root of two of them.
    """
    noise = float(np.median(np.abs(np.diff(values)))) / (0.6745 * np.sqrt(2))
    return float(2 * max(noise**2, 1e-3) * np.log(values.size))
