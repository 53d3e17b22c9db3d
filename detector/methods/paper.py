"""The paper's recipe, section III-B: [Luminol score, Savitzky-Golay filter] three times, then peaks.

Every constant that the text states is a default here; every one that it leaves open is a parameter with the plainest value:

=================  ==========================================================================================
stated             3 passes and `find_peaks` (III-B.3), a second-order polynomial (III-B.2, by example),
                   window = samples / 40 (IV-B and Fig. 10, although one sentence there says "with 40 data points"),
                   `dram_active` as the metric (IV-B)
left open          how peaks become a period (here their mean distance), rounding of the window to odd (here up), the
                   filter's edges (SciPy's default), any bound on a peak's height, prominence or distance (none),
                   Luminol's symbols, chunks and windows (the package's defaults), whether the series is cropped to the
                   training (not here: crop before)
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
EDGES = ("interp", "mirror", "nearest", "constant", "wrap")


def detect(
    signals: Signals,
    clock: Clock,
    *,
    passes: int = 3,
    polyorder: int = 2,
    window_divisor: float = 40,
    window_rounding: Literal["up", "down"] = "up",
    edges: Literal["interp", "mirror", "nearest", "constant", "wrap"] = "interp",
    precision: int = 4,
    chunk_size: int = 2,
    lag_window: int | None = None,
    future_window: int | None = None,
    height: float | None = None,
    prominence: float | None = None,
    distance: float | None = None,
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
        polyorder: of the Savitzky-Golay filter.
        window_divisor: the filter's window is n / window_divisor samples, made odd.
        window_rounding: an even window becomes one sample longer (`up`) or shorter (`down`).
        edges: `mode` of `scipy.signal.savgol_filter`.
        precision, chunk_size, lag_window, future_window: see `luminol.scores`.
        height, prominence, distance: bounds of `scipy.signal.find_peaks`, `distance` in samples.
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

    _check(passes, polyorder, window_divisor, distance)
    for name, value, choices in (
        ("window_rounding", window_rounding, ("up", "down")),
        ("edges", edges, EDGES),
        ("average", average, tuple(AVERAGES)),
        ("implementation", implementation, ("exact", "package")),
    ):
        if value not in choices:
            raise InputError(f"{name} is {value!r}: choose from {', '.join(choices)}")
    n = signals.time.size
    window = int(n / window_divisor)
    if window % 2 == 0:
        window += 1 if window_rounding == "up" else -1
    if window <= polyorder:
        shortest = (polyorder + 1) // 2 * 2 + (window_rounding == "down")
        needed = int(np.ceil(window_divisor * shortest))
        raise InputError(
            f"the paper's recipe needs at least {needed} samples at these settings, the trace has {n}: record longer"
        )
    if window > n:
        raise InputError(f"window_divisor is {window_divisor}: the window of {window} samples is longer than the trace of {n}")
    series = univariate.sampled(signals, clock, signals.main())

    values = series.values
    scores: dict[str, NDArray[np.float64]] = {}
    for number in range(1, passes + 1):
        anomalies = (
            luminol.package_scores(values)
            if implementation == "package"
            else luminol.scores(
                values, precision=precision, chunk_size=chunk_size, lag_window=lag_window, future_window=future_window
            )
        )
        values = savgol_filter(anomalies, window, polyorder, mode=edges)
        for key, score in ((f"luminol{number}", anomalies), (f"pass{number}", values)):
            scores[key] = score if clock.name == "wall" else np.interp(clock.reading, series.reading, score)

    peaks, _ = find_peaks(values, height=height, prominence=prominence, distance=distance)
    return univariate.answer("paper", clock, series.reading[peaks], average=AVERAGES[average], scores=scores)


def _check(passes: int, polyorder: int, window_divisor: float, distance: float | None) -> None:
    if passes < 1:
        raise InputError(f"passes is {passes}: choose at least 1")
    if polyorder < 0:
        raise InputError(f"polyorder is {polyorder}: choose at least 0")
    if not window_divisor >= 1:
        raise InputError(f"window_divisor is {window_divisor}: choose at least 1, the window is a share of the trace")
    if distance is not None and not distance >= 1:
        raise InputError(f"distance is {distance}: choose at least 1 sample")
