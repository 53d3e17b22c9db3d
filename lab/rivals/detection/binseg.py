"""Binseg of `ruptures`: the best single change point, then the best in the two halves, and so on (binary segmentation).

Scott and Knott, "A cluster analysis method for grouping means in the analysis of variance", Biometrics 30 (1974). The paper's
Table III names the library only ("Rupture", 163.38 % MAPE), and section III-B.3 says that the number of change points is for
the user to give; here it is the most likely one.
"""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.methods import univariate
from epochcast.detector.signals import Signals
from epochcast.extras import how_to_install
from lab.rivals.detection.series import pooled

#: The shortest segment, samples: the default of `ruptures`.
SHORTEST = 2
#: Change points to consider, and samples that a longer series is averaged down to, as time grows faster than the length. By
#: choice.
MOST, MOST_SAMPLES = 100, 1000


def detect(signals: Signals, clock: Clock, *, every: int = 1) -> Detection:
    """Epochs between shifts of the mean of one metric; confidence as in `paper`: how even the epochs are.

    The metric is the only one given, else the first of `signals.PREFERENCE`. The period is the median distance: one change
    point too many would spoil a mean.

    Args:
        signals: n samples.
        clock: the samples' positions.
        every: a boundary is every so-many-th change point; 2 where an epoch has two (training and validation).

    Raises:
        InputError: `every` below 1, or `ruptures` is not installed.
    """
    if every < 1:
        raise InputError(f"every is {every}: choose 1 for each change point, 2 for every second, ...")
    try:
        import ruptures
    except ImportError as error:
        raise InputError(f"this method needs the package ruptures; {how_to_install('dev')}") from error
    series = pooled(univariate.sampled(signals, clock, signals.main()), MOST_SAMPLES)
    samples, spread = series.values.size, series.values.std()
    boundaries = np.empty(0)
    if spread > 1e-9 * np.abs(series.values).max() and samples >= 2 * SHORTEST:
        # Every sample is tried (`jump`).
        search = ruptures.Binseg("l2", min_size=SHORTEST, jump=1).fit((series.values - series.values.mean()) / spread)
        numbers = range(1, min(MOST, samples // SHORTEST - 1) + 1)
        ends = [[samples], *(list(search.predict(n_bkps=number)) for number in numbers)]
        best = ends[most_likely(np.array([search.cost.sum_of_costs(each) for each in ends]), samples)]
        boundaries = series.reading[best[:-1:every]]
    return univariate.answer("binseg", clock, boundaries, average=np.median)


def most_likely(costs: NDArray[np.float64], samples: int) -> int:
    """How many change points: the number that minimises n log(cost / n) + 2 k log n.

    That is Yao, "Estimating the number of change-points via Schwarz' criterion", Statistics & Probability Letters 6 (1988).

    Args:
        costs: (m,) least cost with 0, 1, 2, ... change points.
        samples: n.
    """
    # Telemetry that repeats itself exactly has segments without any cost: the logarithm must not be infinite.
    costs = np.maximum(costs, 1e-9 * max(costs[0], 1e-300))
    return int(np.argmin(samples * np.log(costs / samples) + 2 * np.arange(costs.size) * np.log(samples)))
