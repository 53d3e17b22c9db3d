"""The paper's recipe, section III-B: [Luminol score, Savitzky-Golay filter] three times, then peaks.

What the text states, and the plainest value of what it leaves open:

=================  ==========================================================================================
stated             3 passes and `find_peaks` (III-B.3), a second-order polynomial (III-B.2, by example),
                   window = samples / 40 (IV-B and Fig. 10, although one sentence there says "with 40 data points"),
                   `dram_active` as the metric (IV-B)
left open          how peaks become a period (here their mean distance), rounding of the window to odd (here up), the
                   filter's edges (SciPy's default), any bound on a peak's prominence (none),
                   Luminol's symbols, chunks and windows (the package's defaults), whether the series is cropped to the
                   training (not here: `--pipeline paper` crops it before)
=================  ==========================================================================================

The section describes Luminol's bitmap with means of samples and counts scaled to 0..1, and the package has neither: see
`luminol`. The bitmap needs 2000 samples; the package and `luminol.scores` use another algorithm below.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epochcast.detector import luminol
from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.methods import univariate
from epochcast.detector.signals import Signals

AVERAGES: dict[str, Callable[[NDArray[np.float64]], np.floating]] = {"mean": np.mean, "median": np.median}

#: Order of the filter's polynomial: the paper's, by example.
POLYORDER = 2


def detect(
    signals: Signals,
    clock: Clock,
    *,
    passes: int = 3,
    window_divisor: float = 40,
    prominence: float | None = None,
    average: Literal["mean", "median"] = "mean",
    implementation: Literal["exact", "package"] = "exact",
) -> Detection:
    """Epochs between the peaks of the thrice smoothed Luminol score of one metric.

    The metric is the only one given, else the first of `signals.PREFERENCE` (the paper's best, `dram_active`, leads). On the
    wall clock the recipe runs on the samples as they are; on the work clock on as many samples evenly spaced in work.

    The recipe has no confidence. Given here is the share of peak distances within 15 % of their mean: it says how even
    the peaks are, not how probably they are epochs.

    Args:
        signals: n samples.
        clock: the samples' positions.
        passes: how often score and filter follow each other, >= 1.
        window_divisor: the filter's window is n / window_divisor samples, made odd.
        prominence: least of a peak; None: none.
        average: makes the period of the peaks' distances.
        implementation: of Luminol's score: `luminol.scores`, or the package with its defaults, which is 83 to 766 times slower
            and gives the same.

    Returns:
        Verdict `epochs` for at least two peaks, else `none`. `scores` holds, (n,) at the samples' times, `luminol1`, `pass1`,
        `luminol2`, `pass2`, ...: Luminol's score in each pass and the same smoothed, on which the next pass runs.

    Raises:
        InputError: too short a series for the filter, a parameter out of bounds, or a package that is not installed.
    """
    from scipy.signal import find_peaks, savgol_filter  # longer to import than `track` takes for a trace

    if passes < 1:
        raise InputError(f"passes is {passes}: choose at least 1")
    if not window_divisor >= 1:
        raise InputError(f"window_divisor is {window_divisor}: choose at least 1, the window is a share of the trace")
    n = signals.time.size
    window = int(n / window_divisor) | 1
    if window <= POLYORDER:
        needed = int(np.ceil(window_divisor * POLYORDER))
        raise InputError(
            f"the paper's recipe needs at least {needed} samples at these settings, the trace has {n}: record longer"
        )
    if window > n:
        raise InputError(f"window_divisor is {window_divisor}: the window of {window} samples is longer than the trace of {n}")
    series = univariate.sampled(signals, clock, signals.main())

    values = series.values
    scores: dict[str, NDArray[np.float64]] = {}
    for number in range(1, passes + 1):
        anomalies = luminol.package_scores(values) if implementation == "package" else luminol.scores(values)
        values = savgol_filter(anomalies, window, POLYORDER)
        for key, score in ((f"luminol{number}", anomalies), (f"pass{number}", values)):
            scores[key] = score if clock.name == "wall" else np.interp(clock.reading, series.reading, score)

    peaks, _ = find_peaks(values, prominence=prominence)
    return univariate.answer("paper", clock, series.reading[peaks], average=AVERAGES[average], scores=scores)
