"""When the device works: the stretch that the present job has run without a pause."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from ..signals import PREFERENCE

#: Working is a mean over so many seconds above a share of the usual level. A pause of PAUSE_S, and of so many samples, parts
#: jobs; so does a hole of HOLE_S in the telemetry, and of so many samples.
BUSY_MEAN_S, BUSY_SHARE = 3.0, 0.12
PAUSE_S, PAUSE_SAMPLES = 15.0, 8
HOLE_S, HOLE_SAMPLES = 300.0, 100


def pause_s(step_s: float) -> float:
    """Seconds without work that part two jobs, where a sample comes every `step_s` seconds."""
    return max(PAUSE_S, PAUSE_SAMPLES * step_s)


def hole_s(step_s: float) -> float:
    """Seconds without a sample after which nothing is known of what came before."""
    return max(HOLE_S, HOLE_SAMPLES * step_s)


@dataclass(frozen=True)
class Work:
    """A stretch of work.

    Attributes:
        begin, end: bins, `end` excluded.
        threshold: of the activity's 3 s mean.
    """

    begin: int
    end: int
    threshold: float


def last_work(activity: NDArray[np.float64], step_s: float) -> Work | None:
    """The last stretch of work without a pause of 15 s; None if nothing was ever done.

    As the tracker's grid has it, but against the 90th percentile of the bins that are not idle: a job that has only just begun
    is seen after any idle time.

    Args:
        activity: (n,) main metric, on bins of `step_s` seconds.
        step_s: seconds.
    """
    if not activity.size:
        return None
    smooth = uniform_filter1d(activity, max(1, round(BUSY_MEAN_S / step_s)), mode="nearest")
    working = smooth[smooth > BUSY_SHARE * smooth.max()]
    if not working.size:
        return None
    threshold = BUSY_SHARE * float(np.percentile(working, 90))
    busy = np.flatnonzero(smooth > threshold)
    parted = np.flatnonzero(np.diff(busy) > max(1.0, pause_s(step_s) / step_s))
    begin = busy[parted[-1] + 1] if parted.size else busy[0]
    return Work(int(begin), int(busy[-1]) + 1, threshold)


def main_metric(metrics: Sequence[str], values: NDArray[np.float32]) -> int:
    """Row of the metric that stands for the device's activity, as `Signals.main`.

    Args:
        metrics: m names.
        values: (m, n), NaN before a metric's first reading.
    """
    read = [not np.isnan(row).all() for row in values]
    for name in PREFERENCE:
        if name in metrics and read[metrics.index(name)]:
            return metrics.index(name)
    return next((i for i, row in enumerate(values) if read[i] and np.ptp(np.nan_to_num(row)) > 0), 0)
