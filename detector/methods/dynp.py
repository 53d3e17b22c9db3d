"""Dynp of `ruptures`: dynamic programming for the cheapest segmentation with a given number of change points."""

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
        number: of change points. The paper's authors knew it (10 epochs per run); by default the most likely number up to
            `most`, see `change_points.most_likely`.
        most: change points to consider where the number is not given; by choice.
        every: a boundary is every so-many-th change point; 2 where an epoch has two (training and validation).
        most_samples: longer series are averaged down to this length (by choice): time grows with its square.

    Raises:
        InputError: a parameter out of bounds, or `ruptures` is not installed.
    """
    ruptures = change_points.library()
    series = change_points.standardised(signals, clock, cost, every, most_samples)
    points: list[int] = []
    if series is not None:
        # The C version of the same search, several hundred times faster than `ruptures.Dynp`; one call finds all up to k.
        search = ruptures.KernelCPD("linear" if cost == "l2" else cost, min_size=change_points.SHORTEST)
        search.fit(series.values[:, None])
        points = change_points.chosen(search, series.values.size, number, most)
    return change_points.cut("dynp", clock, series, points, every)
