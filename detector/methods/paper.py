"""The paper's recipe, section III-B: [Luminol score, Savitzky-Golay filter] three times, then peaks.

Every constant that the section states is a default here; every one that it leaves open is a parameter with the plainest value:

=================  ==========================================================================================
stated             3 passes, polynomial order 2, window = samples / 40, `find_peaks`, period = mean peak distance
left open          rounding of the window to odd (here up), the filter's edges (SciPy's default), any bound on a peak's
                   height, prominence or distance (here none), whether the series is cropped to the training (here not)
=================  ==========================================================================================

Luminol's bitmap, the algorithm that the section describes, needs 2000 samples; the package and `luminol.scores` use another
one below (see there).
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks, savgol_filter

from .. import luminol
from ..clock import Clock
from ..epochs import Detection, Epoch, Job
from ..errors import InputError
from ..signals import Signals


def detect(
    signals: Signals,
    clock: Clock,
    *,
    passes: int = 3,
    polyorder: int = 2,
    window_divisor: float = 40,
    height: float | None = None,
    prominence: float | None = None,
    distance: float | None = None,
) -> Detection:
    """Epochs between the peaks of the thrice smoothed Luminol score of one metric.

    The metric is the only one given, else the first of `signals.PREFERENCE` (the paper's best, `dram_active`, leads). On the
    wall clock the recipe runs on the samples as they are; on the work clock on as many samples evenly spaced in work.

    The recipe has no confidence. Given here is the share of peak distances within 15 % of their mean: it says how even
    the peaks are, not how probably they are epochs.

    Args:
        signals: n samples.
        clock: where the samples stand.
        passes: how often score and filter follow each other, >= 1.
        polyorder: of the Savitzky-Golay filter.
        window_divisor: the filter's window is n / window_divisor samples, rounded up to odd.
        height, prominence, distance: bounds of `scipy.signal.find_peaks`, `distance` in samples.

    Returns:
        Verdict `epochs` for at least two peaks, else `none`. `scores` holds `pass1`, `pass2`, ..., the smoothed score after
        each pass, (n,) at the samples' times.

    Raises:
        InputError: too short a series for the filter, or a parameter out of bounds.
    """
    _check(passes, polyorder, window_divisor, distance)
    name = signals.main()
    n = signals.time.size
    window = int(n / window_divisor) // 2 * 2 + 1
    if window <= polyorder:
        needed = int(np.ceil(window_divisor * ((polyorder + 1) // 2 * 2)))
        raise InputError(
            f"the paper's recipe needs at least {needed} samples at these settings, the trace has {n}: record longer"
        )
    if window > n:
        raise InputError(f"window_divisor is {window_divisor}: the window of {window} samples is longer than the trace of {n}")
    values, reading = signals.metrics[name], clock.reading
    if clock.name == "work":
        reading = np.linspace(reading[0], reading[-1], n)
        values = clock.resample(name, values, reading)

    scores: dict[str, NDArray[np.float64]] = {}
    for number in range(1, passes + 1):
        values = savgol_filter(luminol.scores(values), window, polyorder)
        scores[f"pass{number}"] = values if clock.name == "wall" else np.interp(clock.reading, reading, values)

    peaks, _ = find_peaks(values, height=height, prominence=prominence, distance=distance)
    if peaks.size < 2:
        return Detection("none", None, None, (), 0.0, "paper", clock.name, scores=scores)
    boundaries = reading[peaks]
    distances = np.diff(boundaries)
    confidence = float(np.mean(np.abs(distances / distances.mean() - 1) <= 0.15))
    times = clock.to_wall(boundaries)
    period = float(np.mean(np.diff(times)))
    work = float(distances.mean()) if clock.name == "work" else None
    epochs = tuple(Epoch(start, end, confidence) for start, end in pairwise(times.tolist()))
    jobs = (Job(period, epochs, confidence),)
    return Detection("epochs", period, work, epochs, confidence, "paper", clock.name, jobs=jobs, scores=scores)


def _check(passes: int, polyorder: int, window_divisor: float, distance: float | None) -> None:
    if passes < 1:
        raise InputError(f"passes is {passes}: choose at least 1")
    if polyorder < 0:
        raise InputError(f"polyorder is {polyorder}: choose at least 0")
    if not window_divisor >= 1:
        raise InputError(f"window_divisor is {window_divisor}: choose at least 1, the window is a share of the trace")
    if distance is not None and not distance >= 1:
        raise InputError(f"distance is {distance}: choose at least 1 sample")
