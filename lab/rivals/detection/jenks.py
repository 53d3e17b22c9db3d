"""Natural breaks (Jenks, 1967; the `jenkspy` package): classes of values, and an epoch begins where the lowest one is left.

The paper's Table III gives "Jenkspy" 172.86 % MAPE and does not say how classes of values became boundaries. The rule here is
ours, and far better than that: three classes (pause or validation, between, training), rising edges out of the lowest.
"""

import numpy as np

from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.methods import univariate
from epochcast.detector.signals import Signals
from epochcast.extras import how_to_install


def detect(
    signals: Signals,
    clock: Clock,
    *,
    classes: int = 3,
    trim_share: float = 0.12,
    most_samples: int = 2000,
) -> Detection:
    """Epochs between the rising edges of one metric out of its lowest class of values.

    The metric is the only one given, else the first of `signals.PREFERENCE`. Confidence as in `paper`: how even the epochs are.
    The period is the median distance of the edges.

    Args:
        signals: n samples.
        clock: the samples' positions.
        classes: of values; 3 as in ../shared/research/detector.md, 3.
        trim_share: idle ends are cut off before the classes are made: samples before the first and after the last one above
            this share of the metric's 90th percentile (12 %: there, section 4). 0 cuts nothing off a metric above 0.
        most_samples: longer series are thinned to this many values (by choice) for making the classes, whose time grows with
            their square; edges are looked for in all samples.

    Raises:
        InputError: a parameter out of bounds, or `jenkspy` is not installed.
    """
    if classes < 2:
        raise InputError(f"classes is {classes}: choose at least 2")
    if not 0 <= trim_share < 1:
        raise InputError(f"trim_share is {trim_share}: choose 0 to below 1")
    if most_samples < classes:
        raise InputError(f"most_samples is {most_samples}: choose at least as many as classes ({classes})")
    try:
        import jenkspy
    except ImportError as error:
        raise InputError(f"this method needs the package jenkspy; {how_to_install('dev')}") from error
    series = univariate.sampled(signals, clock, signals.main())
    busy = np.flatnonzero(series.values > trim_share * np.percentile(series.values, 90))
    if not busy.size:
        return univariate.answer("jenks", clock, np.empty(0))
    span = slice(busy[0], busy[-1] + 1)
    values, reading = series.values[span], series.reading[span]
    thinned = values[:: -(-values.size // most_samples)]
    if np.unique(thinned).size <= classes:
        thinned = np.unique(values)
    if thinned.size <= classes:
        return univariate.answer("jenks", clock, np.empty(0))
    highest = jenkspy.jenks_breaks(thinned, n_classes=classes)[1]
    # The break is the class's highest value, but only of those that were left: halfway to the next value suits all.
    lowest = values < (highest + thinned[thinned > highest].min()) / 2
    edges = np.flatnonzero(lowest[:-1] & ~lowest[1:]) + 1
    return univariate.answer("jenks", clock, reading[edges], average=np.median)
