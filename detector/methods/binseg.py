"""Binseg of `ruptures`: the best single change point, then the best in the two halves, and so on (binary segmentation).

Scott and Knott, "A cluster analysis method for grouping means in the analysis of variance", Biometrics 30 (1974).
"""

from ..clock import Clock
from ..epochs import Detection
from ..signals import Signals
from . import change_points


def detect(
    signals: Signals,
    clock: Clock,
    *,
    cost: change_points.Cost = "l2",
    number: int | None = None,
    most: int = 100,
    every: int = 1,
    most_samples: int = 1000,
) -> Detection:
    """Epochs between the change points of one metric, as many as asked for.

    The metric is the only one given, else the first of `signals.PREFERENCE`. Confidence as in `paper`: how even the epochs are.

    Args:
        signals: n samples.
        clock: where the samples stand.
        cost: see `pelt`.
        number: of change points; by default the most likely number up to `most`, see `change_points.most_likely`.
        most: change points to consider where the number is not given; by choice.
        every: a boundary is every so-many-th change point; 2 where an epoch has two (training and validation).
        most_samples: longer series are averaged down to this length (by choice): every sample is tried, in Python.

    Raises:
        InputError: a parameter out of bounds, or `ruptures` is not installed.
    """
    ruptures = change_points.library()
    series = change_points.standardised(signals, clock, cost, every, most_samples)
    points: list[int] = []
    if series is not None:
        search = ruptures.Binseg(cost, min_size=change_points.SHORTEST, jump=1).fit(series.values)
        points = change_points.chosen(search, series.values.size, number, most)
    return change_points.cut("binseg", clock, series, points, every)
