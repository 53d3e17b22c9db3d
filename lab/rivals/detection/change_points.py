"""What the methods made of `ruptures` share: the series they cut, how many cuts, and the epochs between cuts.

Truong, Oudre and Vayatis, "Selective review of offline change point detection methods", Signal Processing 167 (2020), the
paper's reference [21]. The paper's Table III names the library only ("Rupture", 163.38 % MAPE), and section III-B.3 says that
the number of change points is for the user to give; it does not name the algorithm and cost, hence one file for each.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.methods import univariate
from epochcast.detector.signals import Signals
from epochcast.extras import how_to_install
from lab.rivals.detection.series import pooled

Cost = Literal["l2", "rbf"]

#: The shortest segment, samples. The default of `ruptures`.
SHORTEST = 2


def library() -> Any:
    """The module `ruptures`. Raises InputError where it is not installed."""
    try:
        import ruptures
    except ImportError as error:
        raise InputError(f"this method needs the package ruptures; {how_to_install('dev')}") from error
    return ruptures


def standardised(signals: Signals, clock: Clock, cost: Cost, every: int, most_samples: int) -> univariate.MetricSeries | None:
    """The main metric, at most `most_samples` means of it, with mean 0 and standard deviation 1; None if it does not vary.

    Raises:
        InputError: a parameter out of bounds.
    """
    if cost not in ("l2", "rbf"):
        raise InputError(f"cost is {cost!r}: choose l2 (shifts of the mean) or rbf (any change of the distribution)")
    if every < 1:
        raise InputError(f"every is {every}: choose 1 for each change point, 2 for every second, ...")
    series = pooled(univariate.sampled(signals, clock, signals.main()), most_samples)
    spread = series.values.std()
    if not spread > 1e-9 * np.abs(series.values).max() or series.values.size < 2 * SHORTEST:
        return None
    return univariate.MetricSeries((series.values - series.values.mean()) / spread, series.reading)


def _chosen(search: Any, samples: int, number: int | None, most: int) -> list[int]:
    """The change points of a search that was fitted to so many samples: the requested number, else the most likely one."""
    bound = samples // SHORTEST - 1
    if number is not None:
        if not 1 <= number <= bound:
            raise InputError(f"number is {number}: the series of {samples} samples allows 1 to {bound} change points")
        return list(search.predict(n_bkps=number)[:-1])
    if most < 1:
        raise InputError(f"most is {most}: choose at least 1")
    # The largest number first: from its table the dynamic programme reads the smaller ones off.
    ends = [list(search.predict(n_bkps=count)) for count in range(min(most, bound), 0, -1)]
    ends = [[samples], *reversed(ends)]
    return ends[most_likely(np.array([search.cost.sum_of_costs(each) for each in ends]), samples)][:-1]


def most_likely(costs: NDArray[np.float64], samples: int) -> int:
    """How many change points: the number that minimises n log(cost / n) + 2 k log n.

    That is Yao, "Estimating the number of change-points via Schwarz' criterion", Statistics & Probability Letters 6 (1988), for
    the `l2` cost; the same formula is used for `rbf`, whose cost is the squared deviation in its feature space.

    Args:
        costs: (m,) least cost with 0, 1, 2, ... change points.
        samples: n.
    """
    # Telemetry that repeats itself exactly has segments without any cost: the logarithm must not be infinite.
    costs = np.maximum(costs, 1e-9 * max(costs[0], 1e-300))
    return int(np.argmin(samples * np.log(costs / samples) + 2 * np.arange(costs.size) * np.log(samples)))


def by_number(method: str, search: Callable[[Any, Cost, NDArray[np.float64]], Any]) -> Callable[..., Detection]:
    """The method that asks a search of `ruptures` for a number of change points.

    Args:
        method: key of `METHODS`.
        search: fits a search of the library to a series, (n,), by a cost.
    """

    def detect(
        signals: Signals,
        clock: Clock,
        *,
        cost: Cost = "l2",
        number: int | None = None,
        most: int = 100,
        every: int = 1,
        most_samples: int = 1000,
    ) -> Detection:
        """Epochs between the change points of one metric, in the requested number.

        The metric is the only one given, else the first of `signals.PREFERENCE`. Confidence as in `paper`: how even the epochs
        are.

        Args:
            signals: n samples.
            clock: the samples' positions.
            cost: see `pelt`.
            number: of change points. The paper's authors knew it (10 epochs per run); by default the most likely number up to
                `most`, see `most_likely`.
            most: change points to consider where the number is not given; by choice.
            every: a boundary is every so-many-th change point; 2 where an epoch has two (training and validation).
            most_samples: longer series are averaged down to this length (by choice): time grows faster than the length.

        Raises:
            InputError: a parameter out of bounds, or `ruptures` is not installed.
        """
        ruptures = library()
        series = standardised(signals, clock, cost, every, most_samples)
        points: list[int] = []
        if series is not None:
            points = _chosen(search(ruptures, cost, series.values), series.values.size, number, most)
        return cut(method, clock, series, points, every)

    return detect


def kernel_search(ruptures: Any, cost: Cost, values: NDArray[np.float64]) -> Any:
    """The C version of `Dynp` and `Pelt`, several hundred times faster, fitted to a series, (n,)."""
    return ruptures.KernelCPD("linear" if cost == "l2" else cost, min_size=SHORTEST).fit(values[:, None])


def cut(method: str, clock: Clock, series: univariate.MetricSeries | None, points: list[int], every: int) -> Detection:
    """The epochs between every `every`-th change point.

    With validation there are two change points per epoch, so that `every=2` is the fair reading. The period is the median
    distance: one change point too many would spoil a mean.

    Args:
        method: key of `METHODS`.
        clock: the series' positions.
        series: what was cut.
        points: first samples of all segments but the first.
        every: which of them to keep.
    """
    boundaries = np.empty(0) if series is None else series.reading[points[::every]]
    return univariate.answer(method, clock, boundaries, average=np.median)
